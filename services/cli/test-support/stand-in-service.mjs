// A service in miniature: answers /healthz, dies when told, leaves when its supervisor does.
// Environment: PORT; CRASH_AFTER_MS exits 1 that long after the start; STUBBORN=1 ignores SIGTERM and stdin's end.
import { createServer } from "node:http";

const { PORT, CRASH_AFTER_MS, STUBBORN, NEVER_READY } = process.env;
console.error(JSON.stringify({ msg: "start", pid: process.pid }));
if (!NEVER_READY) createServer((_, response) => response.end("ok")).listen(Number(PORT), "127.0.0.1");
if (CRASH_AFTER_MS) setTimeout(() => process.exit(1), Number(CRASH_AFTER_MS));
process.stdin.resume();
process.stdin.on("end", () => STUBBORN || process.exit(0));
process.on("SIGTERM", () => STUBBORN || process.exit(0));
setInterval(() => {}, 1000);
