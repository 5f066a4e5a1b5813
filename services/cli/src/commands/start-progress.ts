// SPDX-License-Identifier: Apache-2.0
/** The list of services while they start: redrawn on a terminal, one line for each that becomes ready elsewhere. */
import type { Terminal } from "../terminal/terminal.ts";
import { formatSeconds } from "../terminal/format.ts";
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
      const elapsed = (performance.now() - begin) / 1000;
      for (const service of noteReady(services, readyAfter, elapsed)) {
        if (!terminal.isTty)
          region.above(`${service.name} ready after ${formatSeconds(elapsed)} (${portsText(service)})`);
      }
      draw();
      // What follows is the stop of all the others: the cause stays on the screen.
      if (services.some((service) => service.phase === "failed")) end();
    },
    done: end,
    failed: end,
  };
}

/** Notes when a service was ready first. Answers those that are new. */
function noteReady(
  services: readonly ServiceState[],
  readyAfter: Map<string, number>,
  elapsed: number,
): ServiceState[] {
  const fresh = services.filter((service) => service.phase === "ready" && !readyAfter.has(service.name));
  for (const service of fresh) readyAfter.set(service.name, elapsed);
  return fresh;
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
