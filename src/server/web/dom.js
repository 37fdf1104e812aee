// What all parts of the page do with the document: find, make, announce, show an error. Text alone is put in, never markup.

export const byId = (id) => document.getElementById(id);

// make("button", {type: "button"}, "Go") - properties are attributes; children are nodes or text.
export function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

export function button(text, name, act) {
  const node = make("button", { type: "button", "aria-label": name }, text);
  node.addEventListener("click", act);
  return node;
}

// For screen readers, when they have finished what they are saying.
export function announce(text) {
  byId("news").textContent = text;
}

// Shows the error in its place; the control that the server blames is marked and gets the focus.
export function showError(place, error, control = null) {
  place.textContent = `Error: ${error.message}`;
  place.hidden = false;
  if (!control) return;
  const folded = control.closest("details");
  if (folded) folded.open = true;
  control.setAttribute("aria-invalid", "true");
  control.setAttribute("aria-errormessage", place.id);
  control.focus();
}

export function clearError(place, form) {
  place.hidden = true;
  place.textContent = "";
  for (const control of form.elements) {
    control.removeAttribute("aria-invalid");
    control.removeAttribute("aria-errormessage");
  }
}

// A button that goes away must not take the focus with it.
export function hideButton(leaving, heir) {
  const focused = document.activeElement === leaving;
  leaving.hidden = true;
  if (focused) heir.focus();
}
