// SPDX-License-Identifier: Apache-2.0
import { writeFileSync } from "node:fs";
import type { StepRecord } from "@whetstone/proto/jobs/v1/jobs";
import type { Replay } from "./replays.ts";
import type { FinishedJob, QuickstartResult, Success } from "./result.ts";
import { lineChart, percent, shareBar } from "./svg.ts";

const COLORS = { blue: "#2563eb", orange: "#ea580c", green: "#16a34a", violet: "#7c3aed", gray: "#94a3b8" };

/** One page without scripts, readable without a network. */
export function writeReport(
  path: string,
  result: QuickstartResult,
  run: { sft: FinishedJob; grpo: FinishedJob; replays: readonly Replay[] },
): void {
  const sections = [
    heading(result),
    section("Success on maps it has never seen", successTable(result.heldOut)),
    section("While it learned (GRPO)", curves(run.grpo.steps, result)),
    section("Where the time went", timeBar(result)),
    section("Does the trainer see what the engine sampled?", logprobs(run.grpo.steps, result)),
    section("Three episodes, greedy, after GRPO", run.replays.map(replay).join("")),
    section("The books", books(result)),
  ];
  writeFileSync(path, page(sections.join("\n")));
}

function heading(result: QuickstartResult): string {
  return `<h1>FrozenLake from random weights</h1><p>Seed ${result.seed}, maxPolicyLag ${result.maxPolicyLag}: ${result.episodes} episodes,
    ${result.tokensSampled} sampled tokens and ${result.steps} batches in ${result.trainWallSeconds} s of training.</p>`;
}

function section(title: string, body: string): string {
  return `<section><h2>${title}</h2>${body}</section>`;
}

function successTable(heldOut: QuickstartResult["heldOut"]): string {
  const row = (name: string, { greedy, sampled }: Success): string =>
    `<tr><td>${name}</td><td>${percent(greedy)}</td><td>${percent(sampled)}</td></tr>`;
  return `<table><tr><th></th><th>greedy</th><th>sampled</th></tr>${row("random weights", heldOut.start)}${row("after SFT on random legal moves", heldOut.afterSft)}${row("after GRPO", heldOut.afterGrpo)}</table>`;
}

function curves(steps: readonly StepRecord[], { heldOut }: QuickstartResult): string {
  const of = (name: string): [number, number][] => steps.map((record) => [record.step + 1, record.metrics[name] ?? 0]);
  const unseen: [number, number][] = [
    [0, heldOut.afterSft.greedy],
    [steps.length, heldOut.afterGrpo.greedy],
  ];
  const success = lineChart(
    [
      { name: "training episodes that reach the goal", color: COLORS.blue, points: of("rollout/success") },
      { name: "held-out maps, greedy", color: COLORS.orange, points: unseen, marks: true },
    ],
    { x: "step", low: 0, high: 1, format: (y) => `${Math.round(100 * y)} %` },
  );
  const entropy = of("entropy");
  const top = Math.max(0.1, ...entropy.map(([, value]) => value));
  return (
    success +
    lineChart([{ name: "entropy of a sampled token, nats", color: COLORS.violet, points: entropy }], {
      x: "step",
      low: 0,
      high: top,
      format: (y) => y.toFixed(2),
    })
  );
}

function timeBar({ timeShare }: QuickstartResult): string {
  const colors = [COLORS.blue, COLORS.orange, COLORS.green, COLORS.violet, COLORS.gray];
  return shareBar(
    Object.entries(timeShare).map(([name, share], i) => ({ name, share, color: colors[i] ?? COLORS.gray })),
  );
}

function logprobs(steps: readonly StepRecord[], { logprobDiff }: QuickstartResult): string {
  const points: [number, number][] = steps.map((record) => [record.step + 1, record.metrics["logprob_diff/max"] ?? 0]);
  const top = Math.max(1e-6, ...points.map(([, y]) => y));
  const chart = lineChart([{ name: "largest difference of a step, nats", color: COLORS.green, points }], {
    x: "step",
    low: 0,
    high: top,
    format: (y) => y.toExponential(1),
  });
  return `<p>The trainer recomputed the log-probability of every sampled token of ${logprobDiff.episodesChecked} episodes. Largest difference: ${logprobDiff.max.toExponential(2)} nats; episodes over 1e-4: ${logprobDiff.episodesOver1e4}.</p>${chart}`;
}

function replay({ id, won, turns, lastBoard }: Replay): string {
  const boards = turns.map((turn) => figure(turn.board, turn.action || "no valid action"));
  return `<h3>${escape(id)}: ${won ? "reached the goal" : "did not reach the goal"}</h3><div class="boards">${boards.join("")}${figure(lastBoard, won ? "goal" : "end")}</div>`;
}

const CELLS: Record<string, string> = { P: "player", _: "ice", O: "hole", G: "goal", X: "fell", "*": "won" };

function figure(board: string, caption: string): string {
  const rows = board
    .split("\n")
    .map(
      (row) =>
        `<tr>${[...row].map((cell) => `<td class="${CELLS[cell] ?? "ice"}">${cell === "_" ? "" : escape(cell)}</td>`).join("")}</tr>`,
    );
  return `<figure><table class="board">${rows.join("")}</table><figcaption>${escape(caption)}</figcaption></figure>`;
}

function books({ audit, episodes }: QuickstartResult): string {
  const counts = Object.entries(audit).map(([name, count]) => `<b>${count}</b> ${name}`);
  return `<p>Of ${episodes} trained episodes, computed from the streams, the ledger and the checkpoint: ${counts.join(", ")}.</p>`;
}

function escape(text: string): string {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}

function page(body: string): string {
  return `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Whetstone quickstart</title><style>
body{font:16px/1.5 system-ui,sans-serif;max-width:780px;margin:2rem auto;padding:0 1rem;color:#0f172a;background:#fff}
h1{font-size:1.6rem}h2{font-size:1.15rem;margin-top:2rem}h3{font-size:.9rem;font-weight:500}
table{border-collapse:collapse}th,td{padding:.25rem .8rem;text-align:right}td:first-child{text-align:left}
.grid{stroke:#e2e8f0}.axis{font-size:11px;fill:#64748b}.legend{font-size:.85rem;color:#334155;margin:.2rem 0 1rem}
.key{margin-right:1.2rem}.key i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.4em}
.boards{display:flex;flex-wrap:wrap;gap:1rem}figure{margin:0}figcaption{font-size:.8rem;text-align:center;color:#475569}
.board td{width:1.7rem;height:1.7rem;padding:0;text-align:center!important;border:1px solid #cbd5e1;font-weight:600}
.ice{background:#e0f2fe}.hole{background:#334155;color:#cbd5e1}.goal{background:#bbf7d0}.player{background:#fde68a}.fell{background:#b91c1c;color:#fff}.won{background:#16a34a;color:#fff}
</style></head><body>${body}</body></html>\n`;
}
