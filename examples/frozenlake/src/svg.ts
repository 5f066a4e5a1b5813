// SPDX-License-Identifier: Apache-2.0
export interface Series {
  readonly name: string;
  readonly color: string;
  readonly points: readonly (readonly [number, number])[];
  /** Only marks, no line. */
  readonly marks?: boolean;
}

const WIDTH = 720;
const HEIGHT = 240;
const MARGIN = { left: 56, right: 16, top: 12, bottom: 32 };

/** A line chart as SVG text; y from `low` to `high`. */
export function lineChart(
  series: readonly Series[],
  axis: { x: string; low: number; high: number; format: (y: number) => string },
): string {
  const lastX = Math.max(1, ...series.flatMap((one) => one.points.map(([x]) => x)));
  const x = (value: number): number => MARGIN.left + (value / lastX) * (WIDTH - MARGIN.left - MARGIN.right);
  const y = (value: number): number => {
    const share = (clamp(value, axis.low, axis.high) - axis.low) / (axis.high - axis.low);
    return HEIGHT - MARGIN.bottom - share * (HEIGHT - MARGIN.top - MARGIN.bottom);
  };
  const grid = [0, 0.25, 0.5, 0.75, 1].map((share) =>
    gridLine(axis.low + share * (axis.high - axis.low), y, axis.format),
  );
  const drawn = series.map((one) => (one.marks ? markers(one, x, y) : polyline(one, x, y)));
  const label = `<text x="${WIDTH / 2}" y="${HEIGHT - 4}" class="axis" text-anchor="middle">${axis.x} (0 to ${lastX})</text>`;
  return `<svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="img">${grid.join("")}${drawn.join("")}${label}</svg>${legend(series)}`;
}

/** One horizontal bar cut into shares that add up to 1. */
export function shareBar(shares: readonly { name: string; share: number; color: string }[]): string {
  let from = 0;
  const parts = shares.map(({ share, color, name }) => {
    const rect = `<rect x="${from * WIDTH}" y="0" width="${Math.max(0, share * WIDTH)}" height="28" fill="${color}"><title>${name} ${percent(share)}</title></rect>`;
    from += share;
    return rect;
  });
  const words = shares.map(
    ({ name, share, color }) => `<span class="key"><i style="background:${color}"></i>${name} ${percent(share)}</span>`,
  );
  return `<svg viewBox="0 0 ${WIDTH} 28" role="img">${parts.join("")}</svg><p class="legend">${words.join("")}</p>`;
}

export function percent(share: number): string {
  return `${(100 * share).toFixed(1)} %`;
}

function gridLine(value: number, y: (value: number) => number, format: (y: number) => string): string {
  const at = y(value).toFixed(1);
  return `<line x1="${MARGIN.left}" x2="${WIDTH - MARGIN.right}" y1="${at}" y2="${at}" class="grid"/><text x="${MARGIN.left - 6}" y="${at}" class="axis" text-anchor="end" dominant-baseline="middle">${format(value)}</text>`;
}

function polyline({ points, color }: Series, x: (v: number) => number, y: (v: number) => number): string {
  const path = points.map(([px, py]) => `${x(px).toFixed(1)},${y(py).toFixed(1)}`).join(" ");
  return `<polyline points="${path}" fill="none" stroke="${color}" stroke-width="1.8"/>`;
}

function markers({ points, color }: Series, x: (v: number) => number, y: (v: number) => number): string {
  return points
    .map(([px, py]) => `<circle cx="${x(px).toFixed(1)}" cy="${y(py).toFixed(1)}" r="5" fill="${color}"/>`)
    .join("");
}

function legend(series: readonly Series[]): string {
  const words = series.map(({ name, color }) => `<span class="key"><i style="background:${color}"></i>${name}</span>`);
  return `<p class="legend">${words.join("")}</p>`;
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, value));
}
