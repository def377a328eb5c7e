// Keyboard: j and k move over rows, Enter opens one; l goes to the next loop, Escape leaves a field;
// data-key binds a key to an element.

export function handleKeys() {
  document.addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (isWriting(event.target)) {
      if (event.key !== "Escape") return;
      event.target.blur();
      event.preventDefault();  // a browser may clear a search box instead
      return;
    }
    if (event.key === "l") { if (!toNextLoop()) return; }
    else if (event.key === "j" || event.key === "k") walk(event.key === "j" ? 1 : -1);
    else if (!press(event.key)) return;
    event.preventDefault();
  });
}

function isWriting(target) {
  return target instanceof HTMLElement && target.matches("input:not([type=checkbox]), textarea, select, [contenteditable]");
}

function walk(step) {
  // The first link of each row, the cells of a grid, the turns of a conversation.
  const links = [...document.querySelectorAll("[data-rows] tbody tr td:first-child a, [data-walk], .turns .number[href]")]
    .filter(link => link.checkVisibility());
  if (!links.length) return;
  const now = links.indexOf(document.activeElement);
  const next = now < 0 ? (step > 0 ? 0 : links.length - 1) : now + step;
  links[Math.min(Math.max(next, 0), links.length - 1)].focus();
}

// The first loop that begins below the middle of the window, or the first of all.
export function toNextLoop() {
  const begins = [...document.querySelectorAll(".turns > .begins")];
  const next = begins.find(item => item.getBoundingClientRect().top > innerHeight / 2) ?? begins[0];
  if (!next) return false;
  location.hash = next.id;
  next.querySelector(".number").focus({ preventScroll: true });
  return true;
}

function press(key) {
  const place = document.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (!place) return false;
  if (place.matches("input, select, textarea")) place.focus();
  else place.click();
  return true;
}
