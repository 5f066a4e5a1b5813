// SPDX-License-Identifier: Apache-2.0
import type { DescMethod } from "@bufbuild/protobuf";
import { status } from "@grpc/grpc-js";
import { Deadline, WhetstoneError } from "@whetstone/core";
import type { Logger, Metrics } from "@whetstone/telemetry";
import { type AuthContext, callerOf } from "./callers.ts";
import type { CallContext } from "./types.ts";

/** What all four kinds of server call share. */
interface ServerCall {
  getDeadline(): Date | number;
  getAuthContext(): AuthContext;
  on(event: "cancelled" | "error", listener: () => void): unknown;
}

/** One call in progress. */
export interface OpenCall {
  readonly context: CallContext;
  readonly closed: boolean;
  /** Records the outcome and frees the call's timer; the first call wins. */
  close(code: status): void;
}

/** All calls in progress on a server, so that a shutdown reaches each. */
export interface CallScope {
  open(call: ServerCall, method: DescMethod): OpenCall;
  readonly active: number;
  abortAll(reason: Error): void;
}

interface CallRecorder {
  start(method: string): (code: status) => void;
}

export function createCallScope(logger: Logger, metrics?: Metrics): CallScope {
  const controllers = new Set<AbortController>();
  const recorder = createRecorder(metrics);
  return {
    open(call, method) {
      const controller = new AbortController();
      controllers.add(controller);
      call.on("cancelled", () => {
        controller.abort(new WhetstoneError("CANCELLED", "the caller cancelled or went away"));
      });
      call.on("error", () => undefined); // Writing to a caller that is gone; "cancelled" has told the handler.
      const name = `${method.parent.typeName}/${method.name}`;
      return openCall(contextOf(call, name, controller.signal, logger), recorder.start(name), () => {
        controllers.delete(controller);
      });
    },
    get active() {
      return controllers.size;
    },
    abortAll(reason) {
      for (const controller of controllers) controller.abort(reason);
    },
  };
}

function openCall(context: CallContext, record: (code: status) => void, forget: () => void): OpenCall {
  let closed = false;
  return {
    context,
    get closed() {
      return closed;
    },
    close(code) {
      if (closed) return;
      closed = true;
      context.deadline[Symbol.dispose]();
      forget();
      record(code);
    },
  };
}

function contextOf(call: ServerCall, method: string, signal: AbortSignal, logger: Logger): CallContext {
  const deadline = Deadline.after(Math.max(0, Number(call.getDeadline()) - Date.now()), signal);
  return {
    signal: deadline.signal,
    deadline,
    // Reading a certificate costs more than the rest of this: only for those who ask.
    get caller() {
      return callerOf(call);
    },
    logger: logger.child({ method }),
  };
}

function createRecorder(metrics: Metrics | undefined): CallRecorder {
  if (metrics === undefined) return { start: () => () => undefined };
  const active = metrics.gauge("rpc_active_calls", "Calls in progress.", ["method"]);
  const total = metrics.counter("rpc_calls_total", "Calls by outcome.", ["method", "code"]);
  const seconds = metrics.histogram("rpc_call_seconds", "Duration of calls.", ["method"]);
  return {
    start(method) {
      active.inc({ method });
      const stop = seconds.startTimer({ method });
      return (code) => {
        active.dec({ method });
        stop();
        total.inc({ method, code: status[code] });
      };
    },
  };
}
