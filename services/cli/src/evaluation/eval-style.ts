// SPDX-License-Identifier: Apache-2.0
/** Look and behaviour of an evaluation's page. Nothing is loaded from anywhere. */

export const STYLE = `
:root { color-scheme: light dark; --back: #fbfaf8; --card: #fff; --text: #1d1c1a; --dim: #6d6a64; --line: #e2dfd8;
  --good: #2f7d4f; --bad: #b3402f; --accent: #2b5c9e; --soft: #d9e4f3; }
@media (prefers-color-scheme: dark) { :root { --back: #161616; --card: #1f1f20; --text: #ecebe8; --dim: #9c9a95;
  --line: #343434; --good: #6cc28b; --bad: #e98874; --accent: #8db8ee; --soft: #2a3d57; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--back); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { margin: 0 0 4px; font-size: 26px; overflow-wrap: anywhere; } h2 { margin: 36px 0 10px; font-size: 18px; }
p, dl { margin: 0 0 12px; } .dim { color: var(--dim); } .good { color: var(--good); } .bad { color: var(--bad); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; font-size: 14px; }
dt { color: var(--dim); } dd { margin: 0; overflow-wrap: anywhere; }
.cards { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; min-width: 150px; }
.card b { display: block; font-size: 24px; font-weight: 600; } .card span { color: var(--dim); font-size: 13px; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { padding: 7px 12px; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--dim); font-weight: 500; white-space: nowrap; } tr:last-child td { border-bottom: 0; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.id { overflow-wrap: anywhere; font-family: ui-monospace, monospace; font-size: 13px; }
svg { display: block; } td svg { margin-top: 5px; } .axis { stroke: var(--line); } .bar { stroke: var(--accent); stroke-width: 2; }
.dot { fill: var(--accent); } .column { fill: var(--accent); } svg text { fill: var(--dim); font: 12px system-ui, sans-serif; }
.controls { display: flex; flex-wrap: wrap; gap: 8px; margin: 0 0 10px; }
input, select { font: inherit; color: inherit; background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 5px 10px; }
.marks { letter-spacing: 2px; font-family: ui-monospace, monospace; }
summary { cursor: pointer; } details table { margin: 6px 0 2px; } details td, details th { padding: 3px 10px; border: 0; font-size: 13px; }
`;

export const SCRIPT = `
const [search, kind] = [document.querySelector("#search"), document.querySelector("#kind")];
const rows = [...document.querySelectorAll("#tasks > tbody > tr")];
function choose() {
  const text = search.value.toLowerCase();
  let shown = 0;
  for (const row of rows) {
    const fits = row.dataset.text.includes(text) && (kind.value === "" || row.dataset.kind.split(" ").includes(kind.value));
    row.hidden = !fits;
    if (fits) shown += 1;
  }
  document.querySelector("#shown").textContent = shown + " of " + rows.length;
}
search.addEventListener("input", choose);
kind.addEventListener("change", choose);
choose();
`;
