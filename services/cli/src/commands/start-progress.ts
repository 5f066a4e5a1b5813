// SPDX-License-Identifier: Apache-2.0
/** The list of services while they start: redrawn on a terminal, one line for each that becomes ready elsewhere. */
import type { LiveRegion, Terminal } from "../adapters/terminal.ts";
import { formatSeconds } from "../domain/format.ts";
import type { ServiceState } from "../runtime/state-file.ts";

const SPINNER = [..."⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"];
const REDRAW_MS = 100;

export interface StartProgress {
  readonly update: (services: readonly ServiceState[]) => void;
  done(): void;
  failed(): void;
}

export function startProgress(terminal: Terminal, silent: boolean): StartProgress {
  if (silent) return { update: () => {}, done: () => {}, failed: () => {} };
  const region = terminal.live();
  const begin = performance.now();
  const readyAfter = new Map<string, number>();
  let last: readonly ServiceState[] = [];
  let over = false;
  const draw = (): void => {
    if (!over) region.draw(last.map((service) => serviceLine(service, readyAfter.get(service.name), terminal)));
  };
  const timer = terminal.isTty ? setInterval(draw, REDRAW_MS) : undefined;
  const end = (): void => {
    if (over) return;
    draw();
    over = true;
    clearInterval(timer);
    region.done();
  };
  return {
    update: (services) => {
      if (over) return;
      last = services;
      noteReady(services, readyAfter, (performance.now() - begin) / 1000, terminal, region);
      draw();
      // What follows is the stop of all the others: the cause stays on the screen.
      if (services.some((service) => service.phase === "failed")) end();
    },
    done: end,
    failed: end,
  };
}

function noteReady(
  services: readonly ServiceState[],
  readyAfter: Map<string, number>,
  elapsed: number,
  terminal: Terminal,
  region: LiveRegion,
): void {
  for (const service of services) {
    if (service.phase !== "ready" || readyAfter.has(service.name)) continue;
    readyAfter.set(service.name, elapsed);
    if (!terminal.isTty) region.above(`${service.name} ready after ${formatSeconds(elapsed)} (${portsText(service)})`);
  }
}

function serviceLine(service: ServiceState, readyAfter: number | undefined, terminal: Terminal): string {
  const name = service.name.padEnd(14);
  if (service.phase === "ready") {
    return `  ${terminal.paint("green", "✓")} ${name} ${formatSeconds(readyAfter ?? 0).padStart(6)}  ${terminal.paint("dim", portsText(service))}`;
  }
  if (service.phase === "failed" || service.phase === "backoff") {
    return `  ${terminal.paint("red", "✗")} ${name} ${service.phase === "failed" ? "failed" : "exited, starting again"}`;
  }
  if (service.phase === "stopping" || service.phase === "stopped")
    return `  · ${name} ${terminal.paint("dim", service.phase)}`;
  const spin = SPINNER[Math.floor(performance.now() / REDRAW_MS) % SPINNER.length] ?? "";
  return `  ${terminal.paint("cyan", spin)} ${name} ${terminal.paint("dim", service.phase)}`;
}

/** "grpc 4001, http 4002". */
export function portsText(service: Pick<ServiceState, "ports">): string {
  return Object.entries(service.ports)
    .map(([purpose, port]) => `${purpose} ${port}`)
    .join(", ");
}
