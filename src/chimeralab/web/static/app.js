// On every page: remove the token from the address, handle keys, follow live updates.

import { follow } from "./live.js";
import { handleKeys, toNextLoop } from "./keys.js";

// The token is a cookie now; keep it out of copied addresses.
const address = new URL(location.href);
if (address.searchParams.has("token")) {
  address.searchParams.delete("token");
  history.replaceState(null, "", address);
}

handleKeys();

// These work by script alone.
for (const place of document.querySelectorAll("[data-script]")) place.hidden = false;
const onClick = (name, act) => document.querySelector(`[data-script=${name}]`)?.addEventListener("click", act);
onClick("next-loop", toNextLoop);
onClick("copy-link", async event => {
  const id = document.querySelector(".turns > .begins")?.id;
  const link = location.hash || !id ? location.href : `${location.href}#${id}`;
  await navigator.clipboard?.writeText(link);
  event.target.textContent = navigator.clipboard ? "Copied" : link;
});
onClick("theme", () => {
  const dark = getComputedStyle(document.documentElement).colorScheme === "dark"
    || (!document.documentElement.dataset.theme && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  document.cookie = `theme=${dark ? "light" : "dark"}; path=/; max-age=31536000; samesite=strict`;
});
for (const part of document.querySelectorAll("[data-events]")) follow(part.dataset.events);
