// SPDX-License-Identifier: Apache-2.0
import { createLogger, type LogFields, type Logger, type LogLevel } from "./logger.ts";

export interface ServiceProcess<App> {
  /** For logs: `env-runner`. */
  readonly component: string;
  readonly config: { readonly logLevel: LogLevel; readonly supervised: boolean };
  readonly start: (logger: Logger) => Promise<App>;
  /** What is worth a line when it takes calls. */
  readonly describe: (app: App) => LogFields;
  /** The process ends with code 1 when closing takes longer. Default 5,000. */
  readonly closeWithinMs?: number;
}

/** The life of a service's process: it starts, says that it is ready, and closes when it is told to stop. */
export async function runService<App extends AsyncDisposable>(service: ServiceProcess<App>): Promise<void> {
  const { component, config, start, describe, closeWithinMs: withinMs } = service;
  const logger = createLogger({ component, level: config.logLevel });
  const app = await start(logger);
  logger.info("ready", describe(app));
  stopOnSignal(() => Promise.resolve(app[Symbol.asyncDispose]()), { supervised: config.supervised, withinMs });
}

export interface StopOptions {
  /** Also stop when standard input ends, so that nothing outlives a supervisor. */
  readonly supervised: boolean;
  /** The process ends with code 1 when closing takes longer. Default 5,000. */
  readonly withinMs?: number | undefined;
}

/** At SIGTERM or SIGINT closes once and ends the process: code 0, or 1 when closing failed or took too long. */
export function stopOnSignal(close: () => Promise<void>, { supervised, withinMs = 5_000 }: StopOptions): void {
  let stopping = false;
  const stop = (): void => {
    if (stopping) return;
    stopping = true;
    setTimeout(() => process.exit(1), withinMs).unref();
    close().then(
      () => process.exit(0),
      () => process.exit(1),
    );
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
  if (supervised) process.stdin.resume().once("end", stop);
}
