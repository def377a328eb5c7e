// What every page does: forget the token of the address, answer keys, and stay up to date.

import { follow } from "./live.js";
import { answerKeys } from "./keys.js";

// The token is a cookie by now; nobody should copy it with the address.
const address = new URL(location.href);
if (address.searchParams.has("token")) {
  address.searchParams.delete("token");
  history.replaceState(null, "", address);
}

answerKeys();
for (const part of document.querySelectorAll("[data-events]")) follow(part.dataset.events);
