"use strict";
const sheets = [...document.querySelectorAll(".sheet")];
const packet = document.getElementById("packet").dataset.packet;

function read(sheet) {
  return {
    sheet: sheet.dataset.sheet,
    check: sheet.dataset.check,
    label: sheet.querySelector("input[type=radio]:checked")?.value ?? "",
    turns: sheet.querySelector(".cited").value,
    reason: sheet.querySelector(".reason").value,
  };
}

function show() {
  const done = sheets.filter((sheet) => read(sheet).label !== "");
  sheets.forEach((sheet) => sheet.classList.toggle("rated", done.includes(sheet)));
  document.getElementById("done").value = done.length;
  document.getElementById("count").value = `${done.length} of ${sheets.length}`;
}

function keep() {
  try {
    localStorage.setItem(packet, JSON.stringify(sheets.map(read)));
  } catch {
    // A browser without storage still saves the sheet.
  }
  show();
}

function restore() {
  let rows = [];
  try {
    rows = JSON.parse(localStorage.getItem(packet) ?? "[]");
  } catch {
    rows = [];
  }
  sheets.forEach((sheet, n) => {
    const row = rows[n];
    if (row?.sheet !== sheet.dataset.sheet) return;
    const radio = sheet.querySelector(`input[value="${row.label === "1" ? 1 : 0}"]`);
    if (row.label !== "") radio.checked = true;
    sheet.querySelector(".cited").value = row.turns;
    sheet.querySelector(".reason").value = row.reason;
  });
  show();
}

// A spreadsheet runs a cell that begins like a formula.
function cell(text) {
  const safe = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return `"${safe.replaceAll('"', '""')}"`;
}

function save() {
  const names = ["sheet", "check", "label", "turns", "reason"];
  const lines = [names.join(","), ...sheets.map((sheet) => {
    const row = read(sheet);
    return names.map((name) => cell(row[name])).join(",");
  })];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${lines.join("\r\n")}\r\n`], { type: "text/csv" }));
  link.download = "ratings.csv";
  link.click();
}

document.addEventListener("input", keep);
document.getElementById("save").addEventListener("click", save);
restore();
