// Live updates: patches from the server are inserted as text, never as markup.

const MAX_LINES = 500;

export function follow(address) {
  let source = null;
  let over = false;
  const close = () => { source?.close(); source = null; };
  const open = () => {
    if (source || over || document.hidden) return;
    source = new EventSource(address);
    source.onmessage = event => {
      for (const patch of JSON.parse(event.data)) {
        if (patch.place === "end") over = true;
        else apply(patch);
      }
      if (over) close();
    };
    source.onopen = () => document.querySelector(".offline")?.remove();
    source.onerror = () => say(source?.readyState === EventSource.CLOSED
      ? "The server was restarted: open the new link that it printed."
      : "The server does not respond. This page reconnects by itself.");
  };
  // Browsers limit connections per server, so a hidden page closes its own. When it is shown again,
  // the new connection starts with a snapshot.
  document.addEventListener("visibilitychange", () => document.hidden ? close() : open());
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
}

function apply(patch) {
  for (const place of document.querySelectorAll(`[data-live="${CSS.escape(patch.place)}"]`)) {
    if ("value" in patch && place instanceof HTMLProgressElement) {
      place.max = patch.most;
      place.value = patch.value;
      place.hidden = patch.value >= patch.most;
    } else if ("text" in patch && place.textContent !== patch.text) {
      place.textContent = patch.text;
    }
    if ("look" in patch) place.setAttribute("class", patch.look);
    if ("path" in patch) place.setAttribute("d", patch.path);
    if ("title" in patch) place.setAttribute("title", patch.title);
    if ("hidden" in patch) place.hidden = patch.hidden;
    if (patch.lines) extend(place, patch.lines);
    if (patch.reload) location.reload();
  }
}

function extend(list, lines) {
  for (const line of lines) {
    if (line.id && document.getElementById(line.id)) continue;
    const item = document.createElement("li");
    if (line.id) item.id = line.id;
    item.className = line.look ?? "";
    if (line.head) item.append(Object.assign(document.createElement("p"), { className: "who", textContent: line.head }));
    const body = Object.assign(document.createElement("div"), { className: "text", textContent: line.text });
    body.dir = "auto";
    item.append(body);
    // A feed has the newest on top; a conversation is read downwards.
    if (list.matches(".feed")) list.prepend(item);
    else list.append(item);
  }
  while (list.matches(".feed") && list.children.length > MAX_LINES) list.lastElementChild.remove();
}

function say(text) {
  const old = document.querySelector(".offline");
  const note = old ?? Object.assign(document.createElement("p"), { className: "offline" });
  note.setAttribute("role", "status");
  note.textContent = text;
  if (!old) document.querySelector("main").prepend(note);
}
