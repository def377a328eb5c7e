// The sheet of a rater: two clicks cite a range, e cites the turn one is on, and every change is
// kept at once.

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

const turns = [...form.querySelectorAll("input[name=turn]")];
const cited = document.getElementById("cited");
// With one turn cited, the next one cites those between, too; Alt cites it alone.
let alone = false;
form.addEventListener("click", event => { alone = event.altKey; }, true);
form.addEventListener("change", event => {
  const now = turns.indexOf(event.target);
  if (now < 0) return;
  const before = turns.findIndex((turn, n) => turn.checked && n !== now);
  if (event.target.checked && !alone && turns.filter(turn => turn.checked).length === 2) {
    turns.slice(Math.min(now, before), Math.max(now, before)).forEach(turn => { turn.checked = true; });
  }
  const names = turns.filter(turn => turn.checked).map(turn => turn.dataset.name);
  const inRow = names.length > 2 && turns.filter(turn => turn.checked).every((turn, n, all) =>
    !n || turns.indexOf(turn) === turns.indexOf(all[n - 1]) + 1);
  cited.classList.remove("missing");
  cited.textContent = !names.length ? "no turn cited"
    : `cited: ${inRow ? `${names[0]}–${names.at(-1)}` : names.join(", ")}`;
});

form.addEventListener("input", () => {
  clearTimeout(waiting);
  waiting = setTimeout(keep, 250);
});
// The label that is given takes everything with it.
form.addEventListener("submit", event => {
  if (event.submitter?.value === "1" && !turns.some(turn => turn.checked)) {
    event.preventDefault();
    cited.classList.add("missing");
    cited.textContent = "A 1 needs the turns that it points at: cite them first.";
    return;
  }
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
