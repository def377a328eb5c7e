// On every page: remove the token from the address, handle keys, follow live updates.

import { follow } from "./live.js";
import { handleKeys } from "./keys.js";

// The token is a cookie now; keep it out of copied addresses.
const address = new URL(location.href);
if (address.searchParams.has("token")) {
  address.searchParams.delete("token");
  history.replaceState(null, "", address);
}

handleKeys();
for (const part of document.querySelectorAll("[data-events]")) follow(part.dataset.events);
