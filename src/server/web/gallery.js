// The gallery: the pictures of this session, kept in memory, and which two of them are compared.
import { showComparison } from "./compare.js";
import { announce, button, byId, make } from "./dom.js";

// {name, blob, url, settings, size, format, seconds, item, box}; the newest first. `seconds`: from the request to the picture.
const pictures = [];
let chosen = []; // at most two of them, in the order of choice
let made = 0;
let actions = {};

// `reuse(settings)` fills the form; `startFrom(picture)` likewise, null where the model edits no pictures.
export function setUp(given) {
  actions = given;
}

export function factsOf(picture) {
  const { num_inference_steps: steps, seed } = picture.settings;
  return [picture.size, steps && `${steps} steps`, `seed ${seed}`, `after ${picture.seconds.toFixed(1)} s`].filter(Boolean).join(", ");
}

const fileNameOf = (picture) => `quaver-${picture.settings.seed}.${picture.format === "jpeg" ? "jpg" : picture.format}`;

export function fileOf(picture) {
  return new File([picture.blob], fileNameOf(picture), { type: picture.blob.type });
}

export function add(picture) {
  const entry = { ...picture, name: `Picture ${++made}`, url: URL.createObjectURL(picture.blob) };
  entry.item = itemOf(entry);
  pictures.unshift(entry);
  byId("gallery-list").prepend(entry.item);
  byId("gallery-empty").hidden = true;
  return entry;
}

function itemOf(entry) {
  const image = make("img", { src: entry.url, alt: entry.settings.prompt });
  const download = make("a", { href: entry.url, download: fileNameOf(entry), "aria-label": `Download ${entry.name}` }, "Download");
  const row = make("div", { class: "actions" });
  row.append(button("Use these settings", `Use these settings of ${entry.name}`, () => actions.reuse(entry.settings)));
  if (actions.startFrom) row.append(button("Start from this", `Start from this ${entry.name}`, () => actions.startFrom(entry)));
  row.append(download, button("Remove", `Remove ${entry.name}`, () => remove(entry)));
  return make("li", {}, make("h3", {}, entry.name), image, make("p", { class: "prompt" }, entry.settings.prompt),
    make("p", { class: "hint" }, factsOf(entry)), compareChoice(entry), row);
}

function compareChoice(entry) {
  entry.box = make("input", { type: "checkbox", "aria-label": `Compare ${entry.name}` });
  entry.box.addEventListener("change", () => choose(entry, entry.box.checked));
  return make("label", { class: "check" }, entry.box, "Compare");
}

// A third choice lets go of the oldest.
function choose(entry, on) {
  chosen = chosen.filter((each) => each !== entry);
  if (on) chosen.push(entry);
  if (chosen.length > 2) chosen.shift().box.checked = false;
  if (on && chosen.length === 1) announce(`${entry.name} is chosen. Choose another one to compare it with.`);
  if (chosen.length === 2) announce(`${chosen[0].name} and ${chosen[1].name} are compared above the gallery.`);
  showComparison(chosen);
}

function remove(entry) {
  const at = pictures.indexOf(entry);
  pictures.splice(at, 1);
  choose(entry, false);
  entry.item.remove();
  URL.revokeObjectURL(entry.url);
  byId("gallery-empty").hidden = pictures.length > 0;
  const next = pictures[Math.min(at, pictures.length - 1)];
  (next ? next.item.querySelector("button") : byId("gallery-title")).focus();
  announce(`${entry.name} is removed.`);
}
