// SPDX-License-Identifier: Apache-2.0
/** An evaluation as one page that needs nothing else, on a light or a dark screen. */
import type { Estimate, EvaluatedTask, EvaluationReport, FailureCount, Score } from "@whetstone/sdk";

import { SCRIPT, STYLE } from "./eval-style.ts";
import { numberText, percentOf, shareText } from "./eval-tables.ts";
import { formatCount, formatNumber, formatSeconds } from "../terminal/format.ts";
import { Html, html } from "../terminal/html.ts";

/** More would make a page that no browser likes; report.json has all of them. */
const MOST_TASKS = 3_000;

export function reportHtml(report: EvaluationReport): string {
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta
          http-equiv="Content-Security-Policy"
          content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
        />
        <title>${report.name} – evaluation</title>
        <style>
          ${new Html(STYLE)}
        </style>
      </head>
      <body>
        <main>
          ${head(report)} ${cards(report)}
          <h2>By source</h2>
          ${sourceTable(report)} ${failureTable(report.failures)}
          <h2>How often a task was solved</h2>
          ${histogram(report.tasks)}
          <h2>Tasks</h2>
          ${taskTable(report.tasks)}
        </main>
        <script>
          ${new Html(SCRIPT)};
        </script>
      </body>
    </html> `.text;
}

function head(report: EvaluationReport): Html {
  const { model, agent, environment, dataset, attempts, seed, sampling, finishedAt, seconds } = report;
  const facts: [string, string][] = [
    ["model", model],
    ["agent", agent],
    ["environment", environment || "none"],
    ["dataset", dataset],
    ["episodes a task", String(attempts)],
    [
      "sampling",
      Object.entries(sampling)
        .map(([name, value]) => `${name} ${value}`)
        .join(", ") || "default",
    ],
    ["seed", String(seed)],
    ["finished", `${finishedAt}, after ${formatSeconds(seconds)}`],
  ];
  const rows = facts.map(
    ([name, value]) =>
      html`<dt>${name}</dt>
        <dd>${value}</dd>`,
  );
  return html`<h1>${report.name}</h1>
    <p class="dim">Evaluation. Intervals are 95 % confidence intervals over tasks.</p>
    <dl>${rows}</dl>`;
}

function cards({ total }: EvaluationReport): Html {
  const { success, meanReward, passAtK, episodes, voided, tasks, tasksInAll } = total;
  const passes = passAtK.map((pass) => card(`pass@${pass.k}`, percentOf(pass.value), rangeOf(shareText(pass))));
  return html`<div class="cards">
    ${card("success", percentOf(success.value), rangeOf(shareText(success)))} ${passes}
    ${card("mean reward", meanReward.value === null ? "–" : formatNumber(meanReward.value), rangeOf(numberText(meanReward)))}
    ${card("tasks", formatCount(tasks), tasks === tasksInAll ? "all scored" : `of ${formatCount(tasksInAll)}; the others are void`)}
    ${card("episodes", formatCount(episodes), `${formatCount(voided)} voided`)}
  </div>`;
}

function card(name: string, value: string, below: string): Html {
  return html`<div class="card"><span>${name}</span><b>${value}</b><span>${below}</span></div>`;
}

/** "41.2% [38.0, 44.5]" → "38.0 to 44.5". */
function rangeOf(text: string): string {
  const [, low, high] = /\[(.*), (.*)\]/.exec(text) ?? [];
  return low === undefined || high === undefined ? "" : `${low} to ${high}`;
}

function sourceTable({ sources, total, ks }: EvaluationReport): Html {
  const all = sources.length > 1 ? [{ source: "all", ...total }] : [];
  const rows = [...sources, ...all].map(sourceRow);
  const passes = ks.map((k) => html`<th class="n">pass@${k}</th>`);
  return html`<div class="scroll">
    <table>
      <thead>
        <tr>
          <th>source</th>
          <th class="n">tasks</th>
          <th class="n">episodes</th>
          <th class="n">voided</th>
          <th class="n">mean reward</th>
          <th class="n">success</th>
          <th></th>
          ${passes}
        </tr>
      </thead>
      <tbody>
        ${rows}
      </tbody>
    </table>
  </div>`;
}

function sourceRow({ source, ...score }: Score & { readonly source: string }): Html {
  const { tasks, episodes, voided, meanReward, success, passAtK } = score;
  const passes = passAtK.map((pass) => html`<td class="n">${shareText(pass)}</td>`);
  return html`<tr>
    <td>${source}</td>
    <td class="n">${formatCount(tasks)}</td>
    <td class="n">${formatCount(episodes)}</td>
    <td class="n">${formatCount(voided)}</td>
    <td class="n">${numberText(meanReward)}</td>
    <td class="n">${shareText(success)}</td>
    <td>${whisker(success)}</td>
    ${passes}
  </tr> `;
}

/** A share and its interval on a line from 0 to 1. */
function whisker({ value, low, high }: Estimate): Html {
  if (value === null || low === null || high === null) return html``;
  const at = (share: number): string => (4 + 112 * share).toFixed(1);
  return html`<svg width="120" height="14" role="img" aria-label="${percentOf(value)}">
    <line class="axis" x1="4" x2="116" y1="7" y2="7" />
    <line class="bar" x1="${at(low)}" x2="${at(high)}" y1="7" y2="7" />
    <circle class="dot" cx="${at(value)}" cy="7" r="4" />
  </svg>`;
}

function failureTable(failures: readonly FailureCount[]): Html {
  if (failures.length === 0)
    return html`<h2>Failures</h2>
      <p>None.</p>`;
  const rows = failures.map(
    ({ failureClass, phase, episodes, isScored, example }) =>
      html`<tr>
        <td>${failureClass}</td>
        <td>${phase}</td>
        <td class="n">${formatCount(episodes)}</td>
        <td>${isScored ? "scored" : "voided"}</td>
        <td class="id">${example}</td>
      </tr> `,
  );
  return html`<h2>Failures</h2>
    <p class="dim">What was voided has no reward; it is in no number but its own.</p>
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th>class</th>
            <th>phase</th>
            <th class="n">episodes</th>
            <th>counted as</th>
            <th>for example</th>
          </tr>
        </thead>
        <tbody>
          ${rows}
        </tbody>
      </table>
    </div>`;
}

const BINS = 10;

/** Tasks by the share of their scored episodes that are correct; the last bar is for all of them. */
function histogram(tasks: readonly EvaluatedTask[]): Html {
  const counts = Array<number>(BINS + 1).fill(0);
  for (const { correct, episodes } of tasks) {
    const bin = Math.floor((BINS * correct) / episodes);
    if (episodes > 0) counts[bin] = (counts[bin] ?? 0) + 1;
  }
  const most = Math.max(1, ...counts);
  const bars = counts.map((count, bin) => {
    const height = (100 * count) / most;
    const label = bin === BINS ? "all" : `${(100 / BINS) * bin}%`;
    return html`<rect
        class="column"
        x="${bin * 60 + 8}"
        y="${(116 - height).toFixed(1)}"
        width="44"
        height="${height.toFixed(1)}"
        rx="2"
      />
      <text x="${bin * 60 + 30}" y="${(112 - height).toFixed(1)}" text-anchor="middle"
        >${count === 0 ? "" : formatCount(count)}</text
      >
      <text x="${bin * 60 + 30}" y="134" text-anchor="middle">${label}</text>`;
  });
  return html`<div class="scroll">
    <svg
      viewBox="0 -6 ${(BINS + 1) * 60} 146"
      width="100%"
      style="max-width: 760px"
      role="img"
      aria-label="tasks by share solved"
    >
      ${bars}
    </svg>
  </div>`;
}

function taskTable(tasks: readonly EvaluatedTask[]): Html {
  const rows = tasks.slice(0, MOST_TASKS).map(taskRow);
  const cut =
    tasks.length > MOST_TASKS
      ? html`<p class="dim">The first ${formatCount(MOST_TASKS)}; report.json has all.</p>`
      : html``;
  return html`${cut}
    <div class="controls">
      <input id="search" type="search" placeholder="task or source" aria-label="search" />
      <select id="kind" aria-label="which">
        <option value="">all</option>
        <option value="solved">always solved</option>
        <option value="mixed">sometimes</option>
        <option value="unsolved">never</option>
        <option value="voided">with voided episodes</option></select
      ><span id="shown" class="dim"></span>
    </div>
    <div class="scroll">
      <table id="tasks">
        <thead>
          <tr>
            <th>task</th>
            <th>source</th>
            <th class="n">correct</th>
            <th class="n">mean reward</th>
            <th>episodes</th>
          </tr>
        </thead>
        <tbody>
          ${rows}
        </tbody>
      </table>
    </div>`;
}

function taskRow(task: EvaluatedTask): Html {
  const { id, source, correct, episodes, meanReward, attempts } = task;
  const marks = attempts.map(({ isScored, isCorrect }) =>
    isScored
      ? isCorrect
        ? html`<span class="good">●</span>`
        : html`<span class="bad">○</span>`
      : html`<span class="dim">×</span>`,
  );
  return html`<tr data-text="${`${id} ${source}`.toLowerCase()}" data-kind="${kindOf(task)}">
    <td class="id">${id}</td>
    <td>${source}</td>
    <td class="n">${correct}/${episodes}</td>
    <td class="n">${meanReward === null ? "–" : formatNumber(meanReward)}</td>
    <td>
      <details>
        <summary class="marks">${marks}</summary>
        <table>
          ${attempts.map(attemptRow)}
        </table>
      </details>
    </td>
  </tr> `;
}

function attemptRow(attempt: EvaluatedTask["attempts"][number]): Html {
  const { id, isScored, reward, endedBy, failureClass, failurePhase, failureMessage, steps, tokens, seconds } = attempt;
  const failure = failureClass === "NONE" ? "" : `${failureClass} in ${failurePhase}: ${failureMessage}`;
  return html`<tr>
    <td class="id">${id}</td>
    <td class="n">${isScored ? formatNumber(reward) : "void"}</td>
    <td>${endedBy}</td>
    <td class="n">${steps} steps</td>
    <td class="n">${formatCount(tokens)} tokens</td>
    <td class="n">${formatSeconds(seconds)}</td>
    <td class="bad">${failure}</td>
  </tr>`;
}

function kindOf({ correct, episodes, voided }: EvaluatedTask): string {
  const solved = episodes === 0 ? "" : correct === episodes ? "solved" : correct === 0 ? "unsolved" : "mixed";
  return [solved, voided > 0 ? "voided" : ""].filter((word) => word !== "").join(" ");
}
