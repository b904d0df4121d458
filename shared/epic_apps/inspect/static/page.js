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
