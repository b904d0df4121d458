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

// A file that is dropped anywhere on the page goes into the form for files. Nothing is imported before a confirmation.
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
addEventListener("drop", (event) => {
  if (!carries(event)) return;
  event.preventDefault();
  document.body.classList.remove("dropping");
  const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry());
  if (entries.some((entry) => entry && entry.isDirectory)) {
    // A browser does not say where a folder is.
    location.assign("/bring?folder=1#folder");
    return;
  }
  files.files = event.dataTransfer.files;
  files.form.requestSubmit();
});
