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
  const requests = metrics.counter("gateway_requests_total", "Chat completions by status.", ["code"]);
  const forks = metrics.counter("gateway_forks_total", "Calls that continue no earlier one exactly.", ["reason"]);
  const resubmissions = metrics.counter("gateway_resubmissions_total", "Attempts after the first.", ["reason"]);
  const mismatches = metrics.counter("gateway_label_mismatch_total", "Answers under another label than the fence's.");
  const seconds = metrics.histogram("gateway_request_seconds", "From receipt to answer.");
  const tokens = metrics.counter("gateway_tokens_total", "Tokens of answered calls.", ["kind"]);
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
  metrics.gaugeOf("gateway_in_flight", "Calls running on engines.", running);
  metrics.gaugeOf("gateway_waiting", "Calls waiting for an engine.", waiting);
  metrics.gaugeOf("gateway_sessions", "Sessions in memory.", () => sessions.size);
}

/** Engines by state: how many, not which, so that the label stays a closed set. */
function setEngineStates(metrics: Metrics, fleet: Fleet): void {
  const gauge = metrics.gauge("gateway_engine_state", "Engines by state.", ["state"]);
  for (const state of STATES)
    gauge.set(
      { state },
      fleet.engines
        .values()
        .filter((engine) => engine.state === state)
        .toArray().length,
    );
}
