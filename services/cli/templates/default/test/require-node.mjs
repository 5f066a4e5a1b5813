// Node runs TypeScript without a build step from 24.2 on.
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 24 || (major === 24 && minor < 2)) {
  console.error(
    `Node 24.2 or newer is needed, this is ${process.version}: install it, or add the package "node" to this project`,
  );
  process.exit(1);
}
