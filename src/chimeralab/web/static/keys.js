// Keyboard: j and k move over rows, Enter opens one; data-key binds a key to an element.

export function handleKeys() {
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
    if (event.key === "j" || event.key === "k") walk(event.key === "j" ? 1 : -1);
    else if (!press(event.key)) return;
    event.preventDefault();
  });
}

function isWriting(target) {
  return target instanceof HTMLElement && target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
}

function walk(step) {
  // The first link of each row, the cells of a grid, the turns of a conversation.
  const links = [...document.querySelectorAll("[data-rows] tbody tr td:first-child a, [data-walk], .turns .number[href]")];
  if (!links.length) return;
  const now = links.indexOf(document.activeElement);
  const next = now < 0 ? (step > 0 ? 0 : links.length - 1) : now + step;
  links[Math.min(Math.max(next, 0), links.length - 1)].focus();
}

function press(key) {
  const place = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (!place) return false;
  if (place.matches("input, select, textarea")) place.focus();
  else place.click();
  return true;
}
