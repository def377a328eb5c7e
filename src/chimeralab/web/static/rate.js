// The sheet of a rater: e cites the turn one is on, and every change is kept at once.

const form = document.querySelector("form[data-autosave]");
const saved = document.getElementById("saved");
let waiting = null;

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const on = document.activeElement;
  if (event.key === "Escape" && on?.id === "reason") on.blur();
  if (event.key === "Enter" && on?.id === "reason") {
    // Enter would press the first label there is.
    event.preventDefault();
    on.blur();
    keep();
  }
  if (event.key === "e" && on?.matches("input[name=turn]")) {
    event.preventDefault();
    on.click();
  }
});

form.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(keep, 250);
});
// The label that is given takes everything with it.
form.addEventListener("submit", () => {
  clearTimeout(waiting);
  waiting = null;
});
addEventListener("pagehide", () => {
  if (waiting !== null) navigator.sendBeacon?.(form.action, contents());
});

function contents() {
  return new URLSearchParams(new FormData(form));
}

async function keep() {
  clearTimeout(waiting);
  waiting = null;
  try {
    const answer = await fetch(form.action, { method: "POST", body: contents() });
    saved.textContent = answer.ok ? "Saved." : `Not saved: ${await answer.text()}`;
  } catch {
    saved.textContent = "Not saved: the server does not answer. Trying again.";
    waiting = setTimeout(keep, 1000);
  }
}
