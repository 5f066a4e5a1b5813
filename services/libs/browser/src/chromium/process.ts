// SPDX-License-Identifier: Apache-2.0
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Duplex, Readable } from "node:stream";
import { dieWithUs } from "@whetstone/core";
import { CHANNEL_FD, type ProcessBackend, type ProcessSandbox } from "@whetstone/sandbox";

/** A Chromium that runs, with all of its processes. */
export interface ChromiumProcess {
  readonly channel: Duplex;
  readonly stderr: Readable;
  /** Resolves when it is gone. */
  readonly result: Promise<unknown>;
  /** Where it runs. Undefined: on the machine itself. */
  readonly sandbox: ProcessSandbox | undefined;
  readonly kill: () => void;
  /** After its end: nothing is left of it. */
  readonly close: () => Promise<void>;
}

export interface ProcessLaunch {
  readonly executable: string;
  /** MiB, of all of its processes and files. */
  readonly memoryMiB: number;
  /** Folder with the sockets that it may connect to. */
  readonly sockets: string;
}

// One socket is both pipes of the DevTools protocol, which Chromium reads from descriptor 3 and writes to descriptor 4.
const START = `exec "$0" "$@" 3<&${CHANNEL_FD} 4>&${CHANNEL_FD} ${CHANNEL_FD}>&-`;

const FLAGS = [
  "--headless",
  // Ours is around all of it: Chromium's own needs namespaces, which the sandbox does not give away.
  "--no-sandbox",
  "--remote-debugging-pipe",
  "--disable-dev-shm-usage",
  "--disable-gpu",
  "--disable-breakpad",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-default-apps",
  "--disable-extensions",
  "--disable-field-trial-config",
  "--disable-sync",
  "--disable-client-side-phishing-detection",
  "--no-first-run",
  "--no-default-browser-check",
  "--no-pings",
  "--metrics-recording-only",
  "--password-store=basic",
  "--use-mock-keychain",
  "--mute-audio",
  // Pages that nobody looks at go on all the same: many episodes share the browser.
  "--disable-background-timer-throttling",
  "--disable-backgrounding-occluded-windows",
  "--disable-renderer-backgrounding",
  "--disable-ipc-flooding-protection",
  "--disable-hang-monitor",
  "--disable-prompt-on-repost",
  "--disable-popup-blocking",
  "--disable-back-forward-cache",
  // Frames of other sites stay in the page's process, where its accessibility tree can be read. Episodes do not share one.
  "--disable-site-isolation-trials",
  "--disable-features=OverlayScrollbars,ExtendedOverlayScrollbars,Translate,MediaRouter,DialMediaRouteProvider,OptimizationHints,PaintHolding,HttpsUpgrades",
  // The same pixels everywhere.
  "--force-color-profile=srgb",
  "--font-render-hinting=none",
  "--lang=en-US",
  // Media connections know no proxy: they get none.
  "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
  "--webrtc-ip-handling-policy=disable_non_proxied_udp",
];
const VARIABLES = { TZ: "UTC", LANG: "C.UTF-8", DBUS_SESSION_BUS_ADDRESS: "disabled:" };
const DAY_MS = 86_400_000;
/** Processes and threads: each page has about fifteen. */
const PROCESSES = 4096;
const OPEN_FILES = 4096;
const DISK_MIB = 512;

/** @throws SandboxError where no sandbox with namespaces of its own can be had */
export async function launchInSandbox(
  backend: ProcessBackend,
  { executable, memoryMiB, sockets }: ProcessLaunch,
): Promise<ChromiumProcess> {
  const sandbox = await backend.openWalled({
    limits: { memoryMiB, processes: PROCESSES, diskMiB: DISK_MIB, openFiles: OPEN_FILES, cpus: 1024 },
    network: "loopback",
    ttlMs: DAY_MS,
    sockets,
    needsProc: true,
  });
  try {
    const program = sandbox.launch(["sh", "-c", START, executable, ...FLAGS, "--user-data-dir=/tmp/profile"], {
      env: { ...VARIABLES, HOME: "/tmp" },
    });
    program.stdout.resume();
    const { channel, stderr, result } = program;
    return { channel, stderr, result, sandbox, kill: () => program.kill(), close: () => sandbox.close() };
  } catch (error) {
    await sandbox.close();
    throw error;
  }
}

/** Where sandboxes cannot be had and who runs the service has said so: pages then share the machine with Chromium alone. */
export async function launchHere({ executable }: ProcessLaunch): Promise<ChromiumProcess> {
  const home = await mkdtemp(join(tmpdir(), "whetstone-browser-"));
  const [file, ...args] = dieWithUs("KILL", "sh", "-c", START, executable, ...FLAGS, `--user-data-dir=${home}/profile`);
  const child = spawn(file, args, {
    env: { ...VARIABLES, HOME: home, PATH: process.env["PATH"] },
    stdio: ["ignore", "ignore", "pipe", "ignore", "ignore", "pipe"],
    detached: true,
  });
  const kill = (): void => {
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // They have all ended.
    }
  };
  const result = Promise.race([once(child, "exit"), once(child, "error")])
    .catch(() => undefined)
    .then(kill);
  const close = async (): Promise<void> => {
    kill();
    await result;
    await rm(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  };
  const channel = (child.stdio as unknown[])[CHANNEL_FD] as Duplex;
  return { channel, stderr: child.stderr as Readable, result, sandbox: undefined, kill, close };
}
