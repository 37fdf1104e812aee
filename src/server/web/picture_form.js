// The form for pictures: reading it, filling it again, its file fields with choosing, dropping and removing.
import { byId } from "./dom.js";

// What is filled in, by the names of the API's fields; texts, and files where a picture is given. Empty fields are absent.
export function settingsOf(form) {
  const settings = {};
  for (const [name, value] of new FormData(form))
    if (value instanceof File ? value.size > 0 : value !== "") settings[name] = value;
  return settings;
}

export function fillForm(form, settings) {
  for (const control of form.elements) {
    if (!control.name || control.type === "checkbox") continue;
    if (control.type === "file") setFile(control, settings[control.name] ?? null);
    else control.value = settings[control.name] ?? "";
  }
  for (const folded of form.querySelectorAll("details"))
    folded.open ||= [...folded.querySelectorAll("[name]")].some((control) => control.name in settings);
  form.elements.namedItem("prompt").focus();
}

function setFile(input, file) {
  const list = new DataTransfer();
  if (file) list.items.add(file);
  input.files = list.files;
  input.dispatchEvent(new Event("change"));
}

function setUpFile(id, onChange = () => {}) {
  const input = byId(id);
  const shown = byId(`${id}-shown`);
  const remove = byId(`${id}-remove`);
  input.addEventListener("change", () => {
    const file = input.files[0];
    if (shown.src) URL.revokeObjectURL(shown.src);
    if (file) shown.src = URL.createObjectURL(file);
    else shown.removeAttribute("src");
    shown.hidden = remove.hidden = !file;
    onChange(Boolean(file));
  });
  remove.addEventListener("click", () => {
    setFile(input, null);
    input.focus();
  });
}

// Files dropped on `zone` go into the field. Elsewhere a browser would open them in the page's place.
function takeDrops(zone, id) {
  const input = byId(id);
  const frame = input.closest(".drop");
  const light = (event, on) => {
    event.preventDefault();
    event.stopPropagation();
    frame.classList.toggle("over", on);
  };
  zone.addEventListener("dragover", (event) => light(event, !input.disabled));
  zone.addEventListener("dragleave", (event) => light(event, false));
  zone.addEventListener("drop", (event) => {
    light(event, false);
    const file = event.dataTransfer.files[0];
    if (!file || input.disabled) return;
    input.closest("details").open = true;
    setFile(input, file);
  });
}

export function setUpForm(form, { canEdit }) {
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  byId("source-panel").hidden = !canEdit;
  if (!canEdit) return;
  takeDrops(document, "source");
  takeDrops(byId("mask").closest(".drop"), "mask");
  setUpFile("mask");
  // Both speak of a picture, so without one they say nothing.
  setUpFile("source", (there) => {
    byId("strength").disabled = !there;
    byId("mask").disabled = !there;
  });
}
