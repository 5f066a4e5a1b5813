// SPDX-License-Identifier: Apache-2.0
/** The program that runs a job's environments. Its parent is the env-runner. */
import { WhetstoneError } from "@whetstone/core";
import {
  type CallScope,
  type ChildMethods,
  loadModule,
  NOWHERE,
  serveChild,
  strayError,
} from "@whetstone/modules/child";
import {
  createRegistry,
  type Environment,
  readModule,
  resetEnvironment,
  type ResetResult,
  type StepResult,
} from "@whetstone/sdk";
import { stepAndGrade } from "../sessions/grade.ts";
import type { CloseCall, KindDescription, ResetCall, StepCall } from "./calls.ts";

serveChild(async ({ code }: { readonly code: Uint8Array }): Promise<ChildMethods> => {
  const { environments } = readModule(await loadModule(code, { folder: NOWHERE }));
  const registry = createRegistry("environment", environments);
  const sessions = new OpenSessions((kind, args) => registry.get(kind).create(args));
  const kinds = environments.map(({ kind, description, argsSchema, seedable }) => ({
    kind,
    description,
    argsSchemaJson: JSON.stringify(argsSchema),
    seedable,
  }));
  return {
    methods: {
      describe: (): KindDescription[] => kinds,
      reset: (call: ResetCall, scope: CallScope) => sessions.reset(call, scope),
      step: (call: StepCall, scope: CallScope) => sessions.step(call, scope),
      close: (call: CloseCall) => sessions.close(call),
    },
    close: () => sessions.closeAll(),
  };
});

interface OpenEnvironment {
  readonly environment: Environment;
  /** An error that nobody caught, from code of this environment: whatever it is asked next fails with it. */
  stray?: WhetstoneError;
}

class OpenSessions {
  readonly #create: (kind: string, args: ResetCall["args"]) => Environment;
  readonly #open = new Map<number, OpenEnvironment>();

  constructor(create: (kind: string, args: ResetCall["args"]) => Environment) {
    this.#create = create;
  }

  reset({ session, kind, args, seed }: ResetCall, scope: CallScope): ResetResult | Promise<ResetResult> {
    const open: OpenEnvironment = { environment: this.#create(kind, args) };
    this.#open.set(session, open);
    this.#keepStrays(open, scope);
    return resetEnvironment(open.environment, { seed, ...lazySignal(scope) });
  }

  step({ session, action }: StepCall, scope: CallScope): StepResult | Promise<StepResult> {
    const open = this.#get(session);
    this.#keepStrays(open, scope);
    return stepAndGrade(open.environment, action, lazySignal(scope));
  }

  async close({ session }: CloseCall): Promise<void> {
    const open = this.#open.get(session);
    this.#open.delete(session);
    await open?.environment.close();
  }

  async closeAll(): Promise<void> {
    await Promise.allSettled([...this.#open.keys()].map((session) => this.close({ session })));
  }

  #get(session: number): OpenEnvironment {
    const open = this.#open.get(session);
    if (open === undefined) throw new WhetstoneError("FAILED_PRECONDITION", "session: step needs a reset first");
    if (open.stray !== undefined) throw open.stray;
    return open;
  }

  /** Timers that a call has started may fail long after its answer. */
  #keepStrays(open: OpenEnvironment, scope: CallScope): void {
    const failCall = scope.onStray;
    scope.onStray = (error) => {
      open.stray = strayError(error);
      failCall(error);
    };
  }
}

/** Most environments never look at it. */
function lazySignal(scope: CallScope): { readonly signal: AbortSignal } {
  return {
    get signal() {
      return scope.signal;
    },
  };
}
