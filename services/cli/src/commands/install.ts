// SPDX-License-Identifier: Apache-2.0
/** `whet install --kube`, `whet uninstall --kube`: the charts on a cluster, with helm, phase by phase. */
import { join } from "node:path";

import { ApiextensionsV1Api, type KubeConfig, VersionApi } from "@kubernetes/client-node";
import { sleep } from "@whetstone/core";

import { type Helm, helmFor } from "../cluster/helm.ts";
import { type Chosen, chooseContext } from "../cluster/kube-config.ts";
import { releaseOwners, releasePods } from "../cluster/release-pods.ts";
import { badInput, CliError } from "../cli-error.ts";
import { type Installed, RELEASE_DEFAULT } from "../cluster/cluster-names.ts";
import { formatSeconds } from "../terminal/format.ts";
import type { PodView } from "../cluster/pod-progress.ts";
import { INSTALLATION } from "../runtime/layout.ts";
import type { CommandContext, CommonOptions } from "./context.ts";
import { type ClusterFlags, choiceOf } from "./use-cluster.ts";

export interface InstallFlags extends CommonOptions, ClusterFlags {
  readonly kube?: boolean;
  readonly values?: readonly string[];
  readonly set?: readonly string[];
  readonly wait?: boolean;
  readonly timeout: string;
}

export interface UninstallFlags extends CommonOptions, ClusterFlags {
  readonly kube?: boolean;
  readonly crds?: boolean;
}

interface Installing extends Installed {
  readonly chosen: Chosen;
  readonly helm: Helm;
}

const CRDS = "whetstone-crds";
const CRDS_HOME = "default";
const CRD_SUFFIX = ".whetstone.dev";
const LOOK_EVERY_MS = 500;

export async function install(flags: InstallFlags, context: CommandContext): Promise<void> {
  const timeoutMs = readTimeout(flags.timeout);
  const target = open(flags, context);
  const phases = new Phases(flags.json === true, context);
  await phases.run("values", () => target.helm.check(...chartOf(target, flags)));
  await phases.run(`cluster of context ${target.chosen.context}`, () => serverVersion(target.chosen));
  await phases.run("values, against what is installed", () => checkThere(target, flags));
  await phases.run("custom resources", () => installCrds(target));
  await phases.run(`release ${target.release} in namespace ${target.namespace}`, () => installChart(target, flags));
  if (flags.wait !== false) await phases.run("pods ready", () => allReady(target, timeoutMs, phases, context.signal));
  phases.result({ context: target.chosen.context, namespace: target.namespace, release: target.release });
  if (flags.json !== true) for (const line of advice(target)) context.terminal.line(line);
}

export async function uninstall(flags: UninstallFlags, context: CommandContext): Promise<void> {
  const target = open(flags, context);
  const phases = new Phases(flags.json === true, context);
  await phases.run(`cluster of context ${target.chosen.context}`, () => serverVersion(target.chosen));
  await phases.run(`release ${target.release} of namespace ${target.namespace}`, async () => {
    await target.helm.run("uninstall", target.release, "--namespace", target.namespace, "--wait", "--timeout", "300s");
  });
  if (flags.crds === true) await phases.run("custom resources", () => removeCrds(target));
  phases.result({ context: target.chosen.context, namespace: target.namespace, release: target.release });
  if (flags.json !== true && flags.crds !== true)
    context.terminal.line(
      "The custom resources stay for other installations; --crds removes them, with every job of the cluster.",
    );
}

function open(flags: InstallFlags | UninstallFlags, context: CommandContext): Installing {
  if (flags.kube !== true)
    throw badInput([
      { path: "--kube", reason: "needed: this machine needs no installation, `whet up` starts what there is" },
    ]);
  const { environment, signal } = context;
  const choice = choiceOf({ context: environment["WHETSTONE_CONTEXT"] || "current", ...flags }, environment);
  const chosen = chooseContext(choice?.context ?? "current", environment);
  const namespace = choice?.namespace ?? chosen.namespace;
  const helm = helmFor(chosen.context, environment, signal);
  return { chosen, helm, namespace, release: choice?.release ?? RELEASE_DEFAULT };
}

async function serverVersion({ config, context }: Chosen): Promise<string> {
  try {
    return (await config.makeApiClient(VersionApi).getCode()).gitVersion;
  } catch (cause) {
    const { message } = (cause as Error).cause instanceof Error ? ((cause as Error).cause as Error) : (cause as Error);
    throw new CliError("UNAVAILABLE", `the cluster of context ${context} does not answer: ${message}`, { cause });
  }
}

/** One release for the whole cluster, beside no installation: a namespace may go. */
async function installCrds({ chosen, helm }: Installing): Promise<string> {
  const there = await ownCrds(chosen.config);
  const home = await homeOfCrds(there, helm);
  await helm.apply(CRDS, chart(CRDS), home, "--take-ownership", "--wait");
  return there.length > 0 ? "upgraded" : "";
}

/** Where the release is that they came with, if it is still there. */
async function homeOfCrds(crds: Awaited<ReturnType<typeof ownCrds>>, helm: Helm): Promise<string> {
  const home = crds.map(({ metadata }) => metadata?.annotations?.["meta.helm.sh/release-namespace"]).find(Boolean);
  if (home === undefined) return CRDS_HOME;
  return (await helm.has(CRDS, home)) ? home : CRDS_HOME;
}

async function ownCrds(config: KubeConfig) {
  const { items } = await config.makeApiClient(ApiextensionsV1Api).listCustomResourceDefinition();
  return items.filter(({ metadata }) => metadata?.name?.endsWith(CRD_SUFFIX));
}

/** The chart keeps them when it is uninstalled, so they are deleted one by one. */
async function removeCrds({ chosen, helm }: Installing): Promise<string> {
  const there = await ownCrds(chosen.config);
  const home = await homeOfCrds(there, helm);
  await helm.run("uninstall", CRDS, "--namespace", home, "--ignore-not-found", "--wait");
  const api = chosen.config.makeApiClient(ApiextensionsV1Api);
  for (const { metadata } of there) await api.deleteCustomResourceDefinition({ name: metadata?.name ?? "" });
  return there.map(({ spec }) => spec.names.kind).join(", ");
}

/** Before the first installation there is nothing that values could not go with. */
async function checkThere(target: Installing, flags: InstallFlags): Promise<void> {
  if ((await ownCrds(target.chosen.config)).length === 0) return;
  await target.helm.checkThere(...chartOf(target, flags));
}

async function installChart(target: Installing, flags: InstallFlags): Promise<void> {
  await target.helm.apply(...chartOf(target, flags), "--create-namespace");
}

function chartOf({ namespace, release }: Installing, flags: InstallFlags): [string, string, string, ...string[]] {
  const values = (flags.values ?? []).flatMap((file) => ["--values", file]);
  const set = (flags.set ?? []).flatMap((setting) => ["--set", setting]);
  return [release, chart("whetstone"), namespace, ...values, ...set];
}

function chart(name: string): string {
  return join(INSTALLATION.charts, name);
}

async function allReady(target: Installing, timeoutMs: number, phases: Phases, signal: AbortSignal): Promise<string> {
  const told = new Set<string>();
  const end = performance.now() + timeoutMs;
  for (;;) {
    const pods = await everything(target).catch((): PodView[] => []);
    for (const { name } of pods.filter(({ ready, name }) => ready && !told.has(name))) {
      told.add(name);
      phases.note(`${name} ready`);
    }
    if (pods.length > 0 && pods.every(({ ready }) => ready)) return `${pods.length} of ${pods.length}`;
    if (performance.now() >= end) throw notReady(pods, timeoutMs);
    await sleep(LOOK_EVERY_MS, signal);
  }
}

/** Pods, and what the controller makes more of them for. */
async function everything({ chosen, ...installed }: Installing): Promise<PodView[]> {
  const { config } = chosen;
  return (await Promise.all([releasePods(config, installed), releaseOwners(config, installed)])).flat();
}

function notReady(pods: readonly PodView[], timeoutMs: number): CliError {
  const late = pods.filter(({ ready }) => !ready);
  const lines = late.map(({ name, doing, advice }) => `  ${name}: ${advice ?? doing}`);
  return new CliError("NOT_READY", [`not ready within ${timeoutMs / 1000} s:`, ...lines].join("\n"));
}

function advice({ chosen, namespace, release }: Installing): string[] {
  const where = [`--context ${chosen.context}`, `--namespace ${namespace}`];
  if (release !== RELEASE_DEFAULT) where.push(`--release ${release}`);
  return ["", `Train with: whet train job.yaml ${where.join(" ")}`, `Look with:  whet status ${where.join(" ")}`];
}

function readTimeout(text: string): number {
  const seconds = /^\d+$/.test(text) ? Number(text) : NaN;
  if (seconds >= 1 && seconds <= 86_400) return seconds * 1000;
  throw badInput([{ path: "--timeout", reason: `must be seconds from 1 to 86400, not "${text}"` }]);
}

/** Prints each phase with its seconds, or one JSON document at the end. */
class Phases {
  readonly #json: boolean;
  readonly #context: CommandContext;
  readonly #seconds: Record<string, number> = {};
  readonly #startedAt = performance.now();

  constructor(json: boolean, context: CommandContext) {
    this.#json = json;
    this.#context = context;
  }

  async run(name: string, work: () => Promise<string | void>): Promise<void> {
    const { terminal } = this.#context;
    const startedAt = performance.now();
    try {
      const said = await work();
      this.#seconds[name] = (performance.now() - startedAt) / 1000;
      if (!this.#json)
        terminal.line(`${terminal.paint("green", "✓")} ${this.#elapsed()}  ${name}${said ? `: ${said}` : ""}`);
    } catch (error) {
      if (!this.#json) terminal.line(`${terminal.paint("red", "✗")} ${this.#elapsed()}  ${name}`);
      throw error;
    }
  }

  note(text: string): void {
    if (!this.#json) this.#context.terminal.line(`  ${this.#elapsed()}  ${this.#context.terminal.paint("dim", text)}`);
  }

  result(more: object): void {
    if (this.#json) this.#context.terminal.json({ ...more, seconds: this.#seconds });
  }

  #elapsed(): string {
    return formatSeconds((performance.now() - this.#startedAt) / 1000).padStart(7);
  }
}
