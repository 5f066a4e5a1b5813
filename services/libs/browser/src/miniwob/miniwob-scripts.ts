// SPDX-License-Identifier: Apache-2.0
// What runs in MiniWoB++'s pages (html/core/core.js of the package `miniwob`), as BrowserGym does it (browsergym.miniwob.base).

/** No episode lasts so long: rewards do not depend on the time. */
const NEVER_MS = 2 ** 31 - 1;

/** Takes away what is for people, goal, time and last reward, so that the goal cannot be read from the page. */
const HIDE = `
const ids = ["reward-display", "click-canvas", "sync-task-cover"];
const kept = {};
let query = null;
const hide = () => {
  core.clearTimer();
  document.body.removeEventListener("click", core.canvasDrawClick);
  query = document.getElementById("query").cloneNode(true);
  document.getElementById("query").innerHTML = "";
  for (const id of ids) { const element = document.getElementById(id); element.remove(); kept[id] = element; }
};
const show = () => {
  document.getElementById("query").innerHTML = query.innerHTML;
  for (const id of ids) document.body.appendChild(kept[id]);
  core.createDisplay();
};
for (const name of ["getUtterance", "endEpisode", "startEpisodeReal"]) {
  const own = core[name];
  core[name] = (...args) => { show(); const result = own(...args); hide(); return result; };
}
hide();`;

/** Where the goal shows an icon or a colour, it is said in words: by BrowserGym's own (browsergym.miniwob.all). */
const GOALS: Readonly<Record<string, string>> = {
  "click-menu-2": `core.getUtterance = () => {
  const said = (node) => node.textContent.replace(/\\s+/g, " ").trim();
  const query = document.getElementById("query");
  if (query.children.length === 0) return said(query);
  return said(query.childNodes[0]) + ' "' + query.children[0].getAttribute("class").split(" ")[1] + '" ' + said(query.childNodes[2]);
};`,
  "use-colorwheel-2": `core.getUtterance = () => {
  const said = (node) => node.textContent.replace(/\\s+/g, " ").trim();
  const [before, box, after] = document.getElementById("query").children;
  const parts = /^rgb\\((\\d+),\\s*(\\d+),\\s*(\\d+)\\)$/.exec(box.style.backgroundColor).slice(1);
  return said(before) + " #" + parts.map((part) => Number(part).toString(16).padStart(2, "0")).join("") + " " + said(after);
};`,
};

/** An expression that starts the episode of a task, and gives the goal once the page is ready. */
export function startScript(task: string, seed: number): string {
  return `(async () => {
${GOALS[task] ?? ""}
${HIDE}
Math.seedrandom(${seed});
core.EPISODE_MAX_TIME = ${NEVER_MS};
core.startEpisodeReal();
while (!WOB_TASK_READY) await new Promise((resolve) => setTimeout(resolve, 20));
const said = core.getUtterance();
return typeof said === "string" ? said : said.utterance;
})()`;
}

export interface MiniwobResult {
  readonly done: boolean;
  /** Without what time takes away; below 0 for a wrong answer. */
  readonly rawReward: number;
  readonly reason: string | null;
}

export const RESULT_SCRIPT = "({ done: WOB_DONE_GLOBAL, rawReward: WOB_RAW_REWARD_GLOBAL, reason: WOB_REWARD_REASON })";
