// SPDX-License-Identifier: Apache-2.0

/** The files that a patch of git's touches, under their old and their new names. */
export function patchFiles(patch: string): string[] {
  const names = patch.split("\n").flatMap((line) => {
    const name =
      /^(?:---|\+\+\+) (?:[ab]\/)?(.+?)(?:\t.*)?$/u.exec(line)?.[1] ??
      /^(?:rename|copy) (?:from|to) (.+)$/u.exec(line)?.[1];
    return name === undefined || name === "/dev/null" ? [] : [unquoted(name)];
  });
  return [...new Set(names)];
}

/** Git writes names with unusual characters as C writes strings. */
function unquoted(name: string): string {
  if (!/^"(?:[ab]\/)?.*"$/u.test(name)) return name;
  const bytes = name
    .slice(1, -1)
    .replace(/^[ab]\//u, "")
    .replace(/\\([0-7]{3})/gu, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8)));
  return Buffer.from(bytes, "latin1").toString("utf8");
}
