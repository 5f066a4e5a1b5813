// SPDX-License-Identifier: Apache-2.0
/** `node deploy/images/python.ts <folder> [environments]`: the Python half's sources, and the requirements that running all of
 * it has, or its environments. */
import { copyPython } from "../pack/python.ts";

const [target, part = "all"] = process.argv.slice(2);
if (target === undefined || (part !== "all" && part !== "environments")) {
  console.log("usage: node deploy/images/python.ts <folder> [environments]");
  process.exit(2);
}
copyPython(target, part);
