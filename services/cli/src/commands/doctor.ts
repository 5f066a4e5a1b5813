// SPDX-License-Identifier: Apache-2.0
/** `whet doctor`: is everything there that a runtime needs, and what to do where it is not? */
import { existsSync, mkdirSync, rmSync, statfsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

import { runPython } from "../models/models-tool.ts";
import { EXIT } from "../cli-error.ts";
import { formatBytes } from "../terminal/format.ts";
import { INSTALLATION, dataDirectory, dataPaths, pythonPath } from "../runtime/layout.ts";
import { readLock } from "../runtime/lock.ts";
import { findNatsServer } from "../runtime/nats-server.ts";
import { freePorts } from "../runtime/ports.ts";
import { PORT_NAMES } from "../runtime/port-names.ts";
import type { CommandContext, CommonOptions, Outcome } from "./context.ts";

interface Finding {
  readonly check: string;
  readonly ok: boolean;
  readonly found: string;
  /** What to do. Absent: nothing. */
  readonly advice?: string;
}

export async function doctor(flags: CommonOptions, context: CommandContext, outcome: Outcome): Promise<void> {
  const paths = dataPaths(dataDirectory(flags.data, context.environment));
  const python = await pythonFindings();
  const findings = [
    node(),
    ...python,
    nats(context.environment),
    data(paths.root),
    disk(paths.root),
    await ports(),
    model(paths.defaultModel),
    runtime(paths.lock),
  ];
  const bad = findings.filter((finding) => !finding.ok);
  if (bad.length > 0) outcome.exitCode = EXIT.other;
  if (flags.json === true) return context.terminal.json({ ok: bad.length === 0, findings });
  const { terminal } = context;
  for (const { check, ok, found, advice } of findings) {
    terminal.line(`${ok ? terminal.paint("green", "✓") : terminal.paint("red", "✗")} ${check.padEnd(12)} ${found}`);
    if (advice) terminal.line(`  ${" ".repeat(12)} ${terminal.paint(ok ? "dim" : "yellow", `→ ${advice}`)}`);
  }
}

function node(): Finding {
  const ok = Number(process.versions.node.split(".")[0]) >= 24;
  return {
    check: "node",
    ok,
    found: process.versions.node,
    ...(ok ? {} : { advice: INSTALLATION.nodeAdvice }),
  };
}

const PROBE =
  "import sys, json, torch, grpc, nats, tokenizers; print(json.dumps([sys.version.split()[0], torch.__version__, torch.cuda.is_available()]))";

async function pythonFindings(): Promise<Finding[]> {
  const advice = `${INSTALLATION.setupAdvice}, or name a Python in WHETSTONE_PYTHON`;
  try {
    const { code, stdout, stderr } = await runPython(["-c", PROBE]);
    if (code !== 0)
      return [
        { check: "python", ok: false, found: `${pythonPath()}: ${stderr.trim().split("\n").at(-1) ?? ""}`, advice },
      ];
    const [version, torch, cuda] = JSON.parse(stdout) as [string, string, boolean];
    return [
      { check: "python", ok: true, found: `${version} (${pythonPath()})` },
      { check: "torch", ok: true, found: `${torch}, ${cuda ? "CUDA is available" : "no CUDA: the CPU is used"}` },
    ];
  } catch {
    return [{ check: "python", ok: false, found: `${pythonPath()} cannot be run`, advice }];
  }
}

function nats(environment: NodeJS.ProcessEnv): Finding {
  try {
    const { path, version } = findNatsServer(environment);
    return { check: "nats-server", ok: true, found: `${version} (${path})` };
  } catch (error) {
    return { check: "nats-server", ok: false, found: "none that is new enough", advice: (error as Error).message };
  }
}

function data(root: string): Finding {
  try {
    const existed = existsSync(root);
    mkdirSync(root, { recursive: true });
    const probe = join(root, ".doctor");
    writeFileSync(probe, "");
    rmSync(probe);
    if (!existed) rmSync(root, { recursive: true });
    return { check: "data", ok: true, found: root };
  } catch (error) {
    return {
      check: "data",
      ok: false,
      found: `${root}: ${(error as Error).message}`,
      advice: "name another folder with --data",
    };
  }
}

const ENOUGH_BYTES = 2 * 1024 ** 3;

function disk(root: string): Finding {
  let folder = root;
  while (!existsSync(folder)) folder = dirname(folder);
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  const ok = free >= ENOUGH_BYTES;
  return {
    check: "disk",
    ok,
    found: `${formatBytes(free)} free`,
    ...(ok ? {} : { advice: `free ${formatBytes(ENOUGH_BYTES)}: streams and checkpoints are files` }),
  };
}

async function ports(): Promise<Finding> {
  try {
    await freePorts(PORT_NAMES.length);
    return { check: "ports", ok: true, found: "loopback ports are free" };
  } catch (error) {
    return {
      check: "ports",
      ok: false,
      found: (error as Error).message,
      advice: "something forbids listening on 127.0.0.1",
    };
  }
}

function model(path: string): Finding {
  const made = existsSync(join(path, "config.json"));
  return {
    check: "model",
    ok: true,
    found: made ? path : "none yet: `whet up` makes a random tiny one",
    ...(made ? { advice: `\`whet models check ${path}\` looks inside` } : {}),
  };
}

function runtime(lock: string): Finding {
  const holder = readLock(lock);
  return { check: "runtime", ok: true, found: holder ? `running, pid ${holder.pid}` : "not running" };
}
