// SPDX-License-Identifier: Apache-2.0
import type { Metrics } from "@whetstone/telemetry";
import type { EngineState, Fleet } from "../fleet/fleet.ts";
import type { SessionTable } from "../sessions/session-table.ts";

/** The gateway's own numbers; labels are closed sets. */
export interface GatewayMetrics {
  /** One request ended. `code` is the HTTP status, 499 when the client left. */
  readonly request: (code: number, seconds: number) => void;
  readonly fork: (reason: string) => void;
  readonly resubmission: (reason: string) => void;
  readonly labelMismatch: () => void;
  readonly tokens: (prompt: number, completion: number) => void;
  readonly render: () => Promise<string>;
  readonly contentType: string;
}

const STATES: EngineState[] = ["serving", "fenced", "quarantined"];

export function gatewayMetrics(metrics: Metrics, fleet: Fleet, sessions: SessionTable): GatewayMetrics {
  const requests = metrics.counter({
    name: "gateway_requests_total",
    help: "Chat completions by status.",
    labels: ["code"],
  });
  const forks = metrics.counter({
    name: "gateway_forks_total",
    help: "Calls that continue no earlier one exactly.",
    labels: ["reason"],
  });
  const resubmissions = metrics.counter({
    name: "gateway_resubmissions_total",
    help: "Attempts after the first.",
    labels: ["reason"],
  });
  const mismatches = metrics.counter({
    name: "gateway_label_mismatch_total",
    help: "Answers under another label than the fence's.",
  });
  const seconds = metrics.histogram({ name: "gateway_request_seconds", help: "From receipt to answer." });
  const tokens = metrics.counter({ name: "gateway_tokens_total", help: "Tokens of answered calls.", labels: ["kind"] });
  registerGauges(metrics, fleet, sessions);
  return {
    request: (code, took) => {
      requests.inc({ code });
      seconds.observe(took);
    },
    fork: (reason) => {
      forks.inc({ reason });
    },
    resubmission: (reason) => {
      resubmissions.inc({ reason });
    },
    labelMismatch: () => {
      mismatches.inc();
    },
    tokens: (prompt, completion) => {
      tokens.inc({ kind: "prompt" }, prompt);
      tokens.inc({ kind: "completion" }, completion);
    },
    render: async () => {
      setEngineStates(metrics, fleet);
      return await metrics.render();
    },
    contentType: metrics.registry.contentType,
  };
}

function registerGauges(metrics: Metrics, fleet: Fleet, sessions: SessionTable): void {
  const running = (): number => fleet.engines.values().reduce((sum, engine) => sum + engine.leases.size, 0);
  const waiting = (): number =>
    fleet
      .waiting()
      .values()
      .reduce((sum, calls) => sum + calls, 0);
  metrics.gauge({ name: "gateway_in_flight", help: "Calls running on engines.", read: running });
  metrics.gauge({ name: "gateway_waiting", help: "Calls waiting for an engine.", read: waiting });
  metrics.gauge({ name: "gateway_sessions", help: "Sessions in memory.", read: () => sessions.size });
}

/** Engines by state: how many, not which, so that the label stays a closed set. */
function setEngineStates(metrics: Metrics, fleet: Fleet): void {
  const gauge = metrics.gauge({ name: "gateway_engine_state", help: "Engines by state.", labels: ["state"] });
  for (const state of STATES)
    gauge.set(
      { state },
      fleet.engines
        .values()
        .filter((engine) => engine.state === state)
        .toArray().length,
    );
}
