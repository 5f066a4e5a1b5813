// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { pino } from "pino";

export const LOG_LEVELS = ["trace", "debug", "info", "warn", "error", "fatal", "silent"] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export type LogFields = Readonly<Record<string, unknown>>;

/** Logs are events with fields: `log.info("episode_sealed", { episodeId, elapsedMs })`. Errors go under `error`. */
export interface Logger {
  trace(event: string, fields?: LogFields): void;
  debug(event: string, fields?: LogFields): void;
  info(event: string, fields?: LogFields): void;
  warn(event: string, fields?: LogFields): void;
  /** Only when a person must act. */
  error(event: string, fields?: LogFields): void;
  /** Binds fields once: `log.child({ job, episodeId })`. */
  child(fields: LogFields): Logger;
  readonly level: LogLevel;
}

export interface LoggerOptions {
  readonly component: string;
  /** Default `info`. */
  readonly level?: LogLevel | undefined;
  /** Default: standard error, written synchronously, so that nothing is lost on exit. */
  readonly destination?: { write(line: string): void } | undefined;
}

const REDACTED = [
  "apiKey",
  "authorization",
  "password",
  "token",
  "secret",
  "*.apiKey",
  "*.authorization",
  "*.password",
];

/** JSON lines: `{"level":"info","time":"2026-01-31T12:00:00.000Z","component":"…","event":"…", …fields}`. */
export function createLogger(options: LoggerOptions): Logger {
  const destination = options.destination ?? pino.destination({ dest: 2, sync: true });
  const root = pino(
    {
      level: options.level ?? "info",
      base: { component: options.component },
      messageKey: "event",
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { error: serializeError },
      redact: { paths: REDACTED, censor: "[redacted]" },
    },
    destination,
  );
  return wrap(root);
}

/** For tests and for callers that have no logger. */
export const silentLogger: Logger = wrap(pino({ level: "silent" }));

function wrap(inner: pino.Logger): Logger {
  const at =
    (level: Exclude<LogLevel, "silent" | "fatal">) =>
    (event: string, fields?: LogFields): void => {
      inner[level](fields ?? {}, event);
    };
  return {
    trace: at("trace"),
    debug: at("debug"),
    info: at("info"),
    warn: at("warn"),
    error: at("error"),
    child: (fields) => wrap(inner.child(fields)),
    get level() {
      return inner.level as LogLevel;
    },
  };
}

const MAX_CAUSES = 8;

function serializeError(error: unknown, depth = 0): unknown {
  if (!(error instanceof Error)) return error;
  const known = error instanceof WhetstoneError ? { code: error.code, retry: error.retry, context: error.context } : {};
  const cause =
    error.cause === undefined || depth >= MAX_CAUSES ? {} : { cause: serializeError(error.cause, depth + 1) };
  return { name: error.name, message: error.message, ...known, stack: error.stack, ...cause };
}
