// Small comforts; every view and every change works without them.
"use strict";

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, textarea, select");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    const box = document.querySelector("input[type=search]");
    if (box) box.select();
    else location.assign("/query");
  }
  if (event.key === "Escape") {
    const open = event.target.closest("details.ask[open], details.edit[open]");
    if (open) {
      open.open = false;
      open.querySelector("summary").focus();
    }
  }
});

// A change is sent once, however often the button is pressed.
document.addEventListener("submit", (event) => {
  if (event.target.dataset.sent) event.preventDefault();
  event.target.dataset.sent = "yes";
});
addEventListener("pageshow", () => document.querySelectorAll("form").forEach((form) => delete form.dataset.sent));

// Not scrollIntoView: the Tab key would go on from there.
const current = document.querySelector("header nav [aria-current]");
if (current) current.parentElement.scrollLeft = current.offsetLeft - current.parentElement.clientWidth / 2 + current.offsetWidth / 2;

// What is dropped anywhere on the page goes into the form for files. Nothing is imported before a confirmation.
const files = document.querySelector("#files");
const carries = (event) => files && event.dataTransfer && event.dataTransfer.types.includes("Files");
addEventListener("dragover", (event) => {
  if (!carries(event)) return;
  event.preventDefault();
  document.body.classList.add("dropping");
});
addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) document.body.classList.remove("dropping");
});
// The files in a dropped folder, named by their paths; hidden ones are left out.
const filesIn = async (entry) => {
  if (entry.name.startsWith(".")) return [];
  if (entry.isFile) {
    const file = await new Promise((read, failed) => entry.file(read, failed));
    return [new File([file], entry.fullPath.slice(1))];
  }
  const reader = entry.createReader();
  const inside = [];
  for (let some = [entry]; some.length; inside.push(...some)) {
    some = await new Promise((read, failed) => reader.readEntries(read, failed));
  }
  return (await Promise.all(inside.map(filesIn))).flat();
};
addEventListener("drop", async (event) => {
  if (!carries(event)) return;
  event.preventDefault();
  document.body.classList.remove("dropping");
  let given = [...event.dataTransfer.files];
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry());
  try {
    if (entries.some((entry) => entry && entry.isDirectory)) given = (await Promise.all(entries.filter(Boolean).map(filesIn))).flat();
  } catch (error) {
    alert(files.dataset.unread.replace("{}", () => error.message));
    return;
  }
  if (given.length > files.dataset.most) {
    location.assign("/bring?large=1#folder");
    return;
  }
  const carried = new DataTransfer();
  for (const file of given) carried.items.add(file);
  files.files = carried.files;
  files.form.requestSubmit();
});
