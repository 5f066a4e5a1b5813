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

/** An expression that starts the episode, and gives the goal once the page is ready. */
export function startScript(seed: number): string {
  return `(async () => {
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
