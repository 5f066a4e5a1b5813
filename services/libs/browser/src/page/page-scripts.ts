// SPDX-License-Identifier: Apache-2.0
// What runs in pages, as text: it is JavaScript of browsers, and no bundler may touch it. Ids and what the tree shows are those of
// BrowserGym's scripts (browsergym.core.javascript), so that prompts, records and examples fit both.

/** All elements, those in shadow trees after their host. */
export const ELEMENTS = `() => {
  const found = [];
  const walk = (root) => {
    for (const element of root.querySelectorAll("*")) {
      found.push(element);
      if (element.shadowRoot !== null) walk(element.shadowRoot);
    }
  };
  walk(document);
  return found;
}`;

const TAGS =
  "a abbr acronym address applet area article aside audio b base basefont bdi bdo big blockquote body br button canvas caption " +
  "center cite code col colgroup data datalist dd del details dfn dialog dir div dl dt em embed fieldset figcaption figure font " +
  "footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html i iframe img input ins kbd label legend li link main " +
  "map mark menu meta meter nav noframes noscript object ol optgroup option output p param picture pre progress q rp rt ruby s " +
  "samp script search section select small source span strike strong style sub summary sup svg table tbody td template textarea " +
  "tfoot th thead time title tr track tt u ul var video wbr";

/** Frames are named a … z, aA … zZ: all letters but the first are capitals. */
const FRAME_NAME = `(number) => {
  const digits = [];
  for (let rest = number; ; rest = Math.floor(rest / 26) - 1) {
    digits.unshift(rest % 26);
    if (rest < 26) break;
  }
  return digits.map((digit, i) => String.fromCharCode((i === 0 ? 97 : 65) + digit)).join("");
}`;

/** Resolves when the document has not changed for a while. */
const QUIET = `(quietMs, mostMs) => new Promise((resolve) => {
  const end = () => { clearTimeout(still); clearTimeout(most); observer.disconnect(); resolve(); };
  const observer = new MutationObserver(() => { clearTimeout(still); still = setTimeout(end, quietMs); });
  let still = setTimeout(end, quietMs);
  const most = setTimeout(end, mostMs);
  observer.observe(document, { subtree: true, childList: true, attributes: true, characterData: true });
})`;

const MARK = `(parent) => {
  const tags = new Set(${JSON.stringify(TAGS)}.split(" "));
  const isNew = !("browsergym_elem_counter" in window);
  if (isNew) { window.browsergym_elem_counter = 0; window.browsergym_frame_counter = 0; }
  const frameName = ${FRAME_NAME};
  const seen = new Set();
  for (const element of (${ELEMENTS})()) {
    const tag = element.tagName ? element.tagName.toLowerCase() : "";
    if (!tags.has(tag)) continue;
    if (typeof element.value !== "undefined") element.setAttribute("value", element.value);
    if (typeof element.checked !== "undefined") {
      if (element.checked === true) element.setAttribute("checked", ""); else element.removeAttribute("checked");
    }
    let bid = isNew ? null : element.getAttribute("bid");
    if (bid === null || seen.has(bid)) {
      const isFrame = tag === "iframe" || tag === "frame";
      bid = parent + (isFrame ? frameName(window.browsergym_frame_counter++) : window.browsergym_elem_counter++);
      element.setAttribute("bid", bid);
    }
    seen.add(bid);
    for (const name of ["aria-roledescription", "aria-description"])
      element.setAttribute(name, "browsergym_id_" + bid + " " + (element.getAttribute(name) ?? ""));
  }
}`;

export interface Quiet {
  /** No change of the document for so long, milliseconds. 0: it is not waited for. */
  readonly quietMs: number;
  /** A page that is never quiet is looked at after this time, milliseconds. */
  readonly mostMs: number;
}

/** An expression: waits until the document is quiet. */
export function quietScript({ quietMs, mostMs }: Quiet): string {
  return `(${QUIET})(${quietMs}, ${mostMs})`;
}

/**
 * An expression: gives every element of HTML an id where it has none, and writes all ids where the accessibility tree shows them.
 * Frames get letters, other elements numbers, in the order in which they are first seen.
 * @param parent  id of the frame that the document is in; "": it is the page itself
 */
export function markScript(parent: string): string {
  return `(${MARK})(${JSON.stringify(parent)})`;
}

/** Of a document: its title, and which of its elements has the focus; "": none. */
export interface Unmarked {
  readonly title: string;
  readonly focusedBid: string;
}

/** An expression of an {@link Unmarked}: takes the ids out of where the tree shows them. */
export const UNMARK_SCRIPT = `(() => {
  for (const element of (${ELEMENTS})())
    for (const name of ["aria-description", "aria-roledescription"]) {
      const text = element.getAttribute(name);
      if (text === null || !text.startsWith("browsergym_id")) continue;
      const own = text.replace(/^browsergym_id[^\\s]*\\s/, "");
      if (own) element.setAttribute(name, own); else element.removeAttribute(name);
    }
  let focused = document.activeElement;
  while (focused?.shadowRoot?.activeElement) focused = focused.shadowRoot.activeElement;
  return { title: String(document.title), focusedBid: focused?.getAttribute("bid") ?? "" };
})()`;
