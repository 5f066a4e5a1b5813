// SPDX-License-Identifier: Apache-2.0
import { WhetstoneError } from "@whetstone/core";
import { type CallScope, strayError } from "@whetstone/modules/child";
import {
  type BaseEnv,
  beginBrowserTask,
  type BrowserTask,
  BrowserTaskEnvironment,
  checkPage,
  type Judgement,
  resetEnvironment,
  type ResetResult,
  type ServedPage,
  servePage,
  type StepResult,
} from "@whetstone/sdk";
import { stepAndGrade } from "../sessions/grade.ts";
import type { BegunTask, CheckCall, CloseCall, ResetCall, ServeCall, StepCall } from "./calls.ts";

interface OpenEnvironment {
  readonly environment: BaseEnv;
  /** Of an environment that is played in a browser, once it has begun. */
  task?: BrowserTask;
  /** An error that nobody caught, from code of this environment: whatever it is asked next fails with it. */
  stray?: WhetstoneError;
}

/** The environments of a module that are being played, in the module's process. */
export class OpenSessions {
  readonly #create: (kind: string, args: ResetCall["args"]) => BaseEnv;
  readonly #open = new Map<number, OpenEnvironment>();

  constructor(create: (kind: string, args: ResetCall["args"]) => BaseEnv) {
    this.#create = create;
  }

  reset(call: ResetCall, scope: CallScope): ResetResult | Promise<ResetResult | BegunTask> {
    const { session, kind, args, seed } = call;
    const open: OpenEnvironment = { environment: this.#create(kind, args) };
    this.#open.set(session, open);
    this.#keepStrays(open, scope);
    if (open.environment instanceof BrowserTaskEnvironment) return this.#begin(open, open.environment, seed);
    return resetEnvironment(open.environment, { seed, ...lazySignal(scope) });
  }

  step({ session, action }: StepCall, scope: CallScope): StepResult | Promise<StepResult> {
    const { environment } = this.#get(session, scope);
    return stepAndGrade(environment, action, lazySignal(scope));
  }

  async check({ session, page }: CheckCall, scope: CallScope): Promise<Judgement> {
    return await checkPage(taskOf(this.#get(session, scope)), page, lazySignal(scope));
  }

  async serve({ session, request }: ServeCall, scope: CallScope): Promise<ServedPage> {
    return await servePage(taskOf(this.#get(session, scope)), request, lazySignal(scope));
  }

  async close({ session }: CloseCall): Promise<void> {
    const open = this.#open.get(session);
    this.#open.delete(session);
    await open?.task?.close?.();
    await open?.environment.close();
  }

  async closeAll(): Promise<void> {
    await Promise.allSettled([...this.#open.keys()].map((session) => this.close({ session })));
  }

  async #begin(open: OpenEnvironment, environment: BrowserTaskEnvironment, seed: number): Promise<BegunTask> {
    const task = await beginBrowserTask(environment, { seed });
    open.task = task;
    const { goal, url, reads = {}, settings = {}, callTimeoutMs, serve } = task;
    return { browser: { goal, url, reads, settings, callTimeoutMs, serves: serve !== undefined } };
  }

  #get(session: number, scope: CallScope): OpenEnvironment {
    const open = this.#open.get(session);
    if (open === undefined) throw new WhetstoneError("FAILED_PRECONDITION", "session: step needs a reset first");
    if (open.stray !== undefined) throw open.stray;
    this.#keepStrays(open, scope);
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

function taskOf({ task }: OpenEnvironment): BrowserTask {
  if (task === undefined) throw new WhetstoneError("FAILED_PRECONDITION", "session: it is not played in a browser");
  return task;
}

/** Most environments never look at it. */
function lazySignal(scope: CallScope): { readonly signal: AbortSignal } {
  return {
    get signal() {
      return scope.signal;
    },
  };
}
