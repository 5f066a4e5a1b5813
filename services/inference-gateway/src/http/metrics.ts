// SPDX-License-Identifier: Apache-2.0
import type { Metrics } from "@whetstone/telemetry";
import type { EngineState } from "../fleet/engine-entry.ts";
import type { Bound, Fleet } from "../fleet/fleet.ts";
import type { ServedWeights } from "../served/served-names.ts";
import type { SessionTable } from "../sessions/session-table.ts";

/** The gateway's own numbers; labels are closed sets. */
export type GatewayMetrics = ReturnType<typeof gatewayMetrics>;

interface ServedLabels {
  readonly serving: string;
  readonly weights: ServedWeights;
}

const STATES: EngineState[] = ["serving", "fenced", "quarantined"];

export function gatewayMetrics(metrics: Metrics, fleet: Fleet, sessions: SessionTable) {
  const requests = metrics.counter("gateway_requests_total", "Chat completions by status.", ["code"]);
  const forks = metrics.counter("gateway_forks_total", "Calls that continue no earlier one exactly.", ["reason"]);
  const resubmissions = metrics.counter("gateway_resubmissions_total", "Attempts after the first.", ["reason"]);
  const mismatches = metrics.counter("gateway_label_mismatch_total", "Answers under another label than the fence's.");
  const toolCalls = metrics.counter("gateway_tool_calls_total", "Calls of tools in answers; malformed: no JSON.", [
    "outcome",
  ]);
  const refused = metrics.counter("gateway_refused_total", "Calls that might not wait, by the bound.", ["bound"]);
  const handovers = metrics.counter(
    "gateway_handovers_total",
    "Sessions given to other replicas (moved; lost: given away and not taken), and taken from them (received).",
    ["outcome"],
  );
  const seconds = metrics.histogram("gateway_request_seconds", "From receipt to answer.");
  const tokens = metrics.counter("gateway_tokens_total", "Tokens of answered calls.", ["kind"]);
  const servedCalls = metrics.counter("gateway_served_calls_total", "Calls for served names, by weights and outcome.", [
    "serving",
    "weights",
    "outcome",
  ]);
  const servedTokens = metrics.counter(
    "gateway_served_tokens_total",
    "Tokens of prompts and answers of served names.",
    ["serving", "weights"],
  );
  registerGauges(metrics, fleet, sessions);
  return {
    /** One request ended. `code` is the HTTP status, 499 when the client left. */
    request: (code: number, took: number) => {
      requests.inc({ code });
      seconds.observe(took);
    },
    onFork: (reason: string) => {
      forks.inc({ reason });
    },
    onResubmission: (reason: string) => {
      resubmissions.inc({ reason });
    },
    onLabelMismatch: () => {
      mismatches.inc();
    },
    onToolCall: (outcome: "good" | "malformed") => {
      toolCalls.inc({ outcome });
    },
    onRefused: (bound: Bound) => {
      refused.inc({ bound });
    },
    onHandover: (outcome: "moved" | "lost" | "received") => {
      handovers.inc({ outcome });
    },
    onTokens: (prompt: number, completion: number) => {
      tokens.inc({ kind: "prompt" }, prompt);
      tokens.inc({ kind: "completion" }, completion);
    },
    servedCall: (labels: ServedLabels & { outcome: "answered" | "failed" }) => {
      servedCalls.inc({ ...labels });
    },
    servedTokens: (labels: ServedLabels, count: number) => {
      servedTokens.inc({ ...labels }, count);
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
  metrics.gaugeOf("gateway_in_flight", "Calls running on engines.", running);
  metrics.gaugeOf("gateway_waiting", "Calls waiting for an engine.", () => fleet.waitingCalls());
  metrics.gaugeOf("gateway_sessions", "Sessions in memory.", () => sessions.size);
}

/** Engines by state: how many, not which, so that the label stays a closed set. */
function setEngineStates(metrics: Metrics, fleet: Fleet): void {
  const gauge = metrics.gauge("gateway_engine_state", "Engines by state.", ["state"]);
  for (const state of STATES) {
    const engines = fleet.engines.values().filter((engine) => engine.state === state);
    gauge.set({ state }, engines.toArray().length);
  }
}
