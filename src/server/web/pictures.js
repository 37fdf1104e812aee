// Drawing: from the form to a request, and from the server's events to progress, previews and finished pictures.
import { ApiError, call, events, jsonPost } from "./api.js";
import { announce, byId, clearError, hideButton, showError } from "./dom.js";
import * as gallery from "./gallery.js";
import { fillForm, setUpForm, settingsOf } from "./picture_form.js";

const form = byId("picture-form");
const NUMBERS = new Set(["n", "num_inference_steps", "guidance_scale", "true_cfg_scale", "seed", "strength", "partial_images"]);

let cancel = null; // of the drawing under way; null when there is none

// A form of several parts where a file goes along, else JSON. Settings are named as the API names its fields.
function drawingRequest(settings, signal) {
  const fields = { ...settings, stream: true };
  if (!settings.image) {
    for (const name of NUMBERS) if (name in fields) fields[name] = Number(fields[name]);
    return call("v1/images/generations", jsonPost(fields, signal));
  }
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) body.append(name, value);
  return call("v1/images/edits", { method: "POST", body, signal });
}

function blobOf(event) {
  const bytes = Uint8Array.from(atob(event.b64_json), (c) => c.charCodeAt(0));
  return new Blob([bytes], { type: `image/${event.output_format}` });
}

function showOnStage(blob, caption, alt) {
  const image = byId("stage-picture");
  if (image.src) URL.revokeObjectURL(image.src);
  image.src = URL.createObjectURL(blob);
  image.alt = alt;
  image.hidden = false;
  byId("stage-caption").textContent = caption;
}

// Progress as text and bar for the eyes; for the ears each change of the queue and each quarter of the way.
function progressReader() {
  let said = "";
  return ({ step, steps, queue_position: ahead }) => {
    const waiting = step === 0 && ahead > 0;
    const requests = ahead === 1 ? "1 request" : `${ahead} requests`;
    const bar = byId("progress-bar");
    if (steps > 0) bar.max = steps;
    if (waiting) bar.removeAttribute("value");
    else bar.value = step;
    byId("progress-text").textContent = waiting ? `Waiting: ${requests} ahead` : `Step ${step} of ${steps}`;
    const quarter = Math.floor((4 * step) / Math.max(steps, 1));
    const saying = waiting ? `Waiting, ${requests} ahead.` : quarter > 0 && quarter < 4 ? `${quarter * 25} percent drawn.` : said;
    if (saying !== said) announce(saying);
    said = saying;
  };
}

function finish(event, settings, started) {
  const picture = {
    blob: blobOf(event),
    settings: { ...settings, seed: String(event.seed), n: "1" },
    size: event.size,
    format: event.output_format,
    seconds: (performance.now() - started) / 1000,
  };
  const entry = gallery.add(picture);
  showOnStage(picture.blob, `${entry.name}: ${gallery.factsOf(picture)}`, settings.prompt);
  form.elements.namedItem("seed").dataset.last = picture.settings.seed;
  byId("seed-again").disabled = false;
  byId("seed-hint").textContent = `Empty draws a random one. Last used: ${picture.settings.seed}.`;
  announce(`${entry.name} is done, seed ${picture.settings.seed}.`);
}

async function follow(response, settings, started) {
  const showProgress = progressReader();
  for await (const event of events(response)) {
    const kind = event.type.split(".").pop();
    if (kind === "progress") showProgress(event);
    if (kind === "partial_image") showOnStage(blobOf(event), "Preview", `Preview: ${settings.prompt}`);
    if (kind === "completed") finish(event, settings, started);
  }
}

function setBusy(busy) {
  form.setAttribute("aria-busy", String(busy));
  byId("draw").setAttribute("aria-disabled", String(busy));
  byId("progress").hidden = !busy;
  byId("progress-bar").removeAttribute("value");
  byId("progress-text").textContent = "Starting";
  if (busy) byId("cancel").hidden = false;
  else hideButton(byId("cancel"), byId("draw"));
}

function showDrawingError(error) {
  if (error.name === "AbortError") {
    byId("stage-caption").textContent = "Cancelled.";
    announce("Cancelled.");
    return;
  }
  if (!(error instanceof ApiError)) console.error(error);
  const control = error.field ? form.elements.namedItem(error.field) : null;
  showError(byId("picture-error"), error, control);
}

async function draw() {
  if (cancel) return;
  clearError(byId("picture-error"), form);
  const settings = settingsOf(form);
  cancel = new AbortController();
  setBusy(true);
  announce("Drawing.");
  try {
    await follow(await drawingRequest(settings, cancel.signal), settings, performance.now());
  } catch (error) {
    showDrawingError(error);
  } finally {
    cancel = null;
    setBusy(false);
  }
}

// What holds where a field is empty, shown in the fields themselves.
function showDefaults(defaults) {
  byId("size").placeholder = defaults.default_size;
  byId("size-hint").textContent = `Width x height in pixels, multiples of ${defaults.size_unit}.`;
  byId("steps").placeholder = defaults.num_inference_steps;
  byId("guidance").placeholder = defaults.guidance_scale;
}

export function openPictures({ canEdit, defaults }) {
  byId("pictures").hidden = false;
  showDefaults(defaults);
  setUpForm(form, { canEdit });
  gallery.setUp({
    reuse: (settings) => fillForm(form, settings),
    startFrom: canEdit ? (picture) => fillForm(form, { ...settingsOf(form), image: gallery.fileOf(picture) }) : null,
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    draw();
  });
  byId("cancel").addEventListener("click", () => cancel?.abort());
  byId("seed-again").addEventListener("click", () => {
    const seed = form.elements.namedItem("seed");
    seed.value = seed.dataset.last;
    seed.focus();
  });
}
