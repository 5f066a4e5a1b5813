// SPDX-License-Identifier: Apache-2.0
/** Completion scripts, made from the tree of commands. */

/** A command line's words and what may follow each. */
export interface CommandNode {
  readonly name: string;
  readonly description: string;
  readonly options: readonly { readonly flag: string; readonly description: string }[];
  readonly children: readonly CommandNode[];
}

export const SHELLS = ["bash", "zsh", "fish"] as const;
export type Shell = (typeof SHELLS)[number];

export function completionScript(shell: Shell, root: CommandNode): string {
  return { bash, zsh, fish }[shell](root);
}

/** Every path of commands, "" for the root, "jobs get" for a command of a group. */
function paths(root: CommandNode): { path: string; node: CommandNode }[] {
  const below = (node: CommandNode, path: string): { path: string; node: CommandNode }[] => [
    { path, node },
    ...node.children.flatMap((child) => below(child, path === "" ? child.name : `${path} ${child.name}`)),
  ];
  return below(root, "");
}

function wordsOf(node: CommandNode): string {
  return [...node.children.map((child) => child.name), ...node.options.map((option) => option.flag)].join(" ");
}

/** The words so far that are commands select a line of the table; files are offered where a word is no option. */
function bash(root: CommandNode): string {
  const cases = paths(root).map(({ path, node }) => `    "${path}") words="${wordsOf(node)}" ;;`);
  const known = paths(root).flatMap(({ path }) => (path === "" ? [] : [`"${path}"`]));
  return `# bash completion of ${root.name}; use: source <(${root.name} completion bash)
_${root.name}() {
  local current="\${COMP_WORDS[COMP_CWORD]}" path="" next word words=""
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    next="\${path:+$path }$word"
    case "$next" in
      ${known.join("|")}) path="$next" ;;
    esac
  done
  case "$path" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  [[ \${#COMPREPLY[@]} -eq 0 && "$current" != -* ]] && COMPREPLY=($(compgen -f -- "$current"))
  return 0
}
complete -o filenames -F _${root.name} ${root.name}
`;
}

function zsh(root: CommandNode): string {
  const quote = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
  const entry = (name: string, description: string): string => quote(`${name.replaceAll(":", "\\:")}:${description}`);
  const cases = paths(root).map(({ path, node }) => {
    const entries = [
      ...node.children.map((child) => entry(child.name, child.description)),
      ...node.options.map((option) => entry(option.flag, option.description)),
    ];
    return `    ${quote(path)}) entries=(${entries.join(" ")}) ;;`;
  });
  const known = paths(root).flatMap(({ path }) => (path === "" ? [] : [quote(path)]));
  return `#compdef ${root.name}
# zsh completion of ${root.name}; use: source <(${root.name} completion zsh)
_${root.name}() {
  local command_path="" next word
  local -a entries
  for word in "\${(@)words[2,CURRENT-1]}"; do
    next="\${command_path:+$command_path }$word"
    case "$next" in
      ${known.join("|")}) command_path="$next" ;;
    esac
  done
  case "$command_path" in
${cases.join("\n")}
  esac
  _describe '${root.name}' entries || _files
}
compdef _${root.name} ${root.name}
`;
}

function fish(root: CommandNode): string {
  const quote = (text: string): string => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`;
  const lines = paths(root).flatMap(({ path, node }) => {
    const condition = `-n ${quote(fishCondition(path, node))}`;
    const children = node.children.map(
      (child) => `complete -c ${root.name} ${condition} -f -a ${child.name} -d ${quote(child.description)}`,
    );
    const options = node.options
      .filter((option) => option.flag.startsWith("--"))
      .map(
        (option) => `complete -c ${root.name} ${condition} -l ${option.flag.slice(2)} -d ${quote(option.description)}`,
      );
    return [...children, ...options];
  });
  return [`# fish completion of ${root.name}; use: ${root.name} completion fish | source`, ...lines, ""].join("\n");
}

function fishCondition(path: string, node: CommandNode): string {
  if (path === "") return "__fish_use_subcommand";
  const seen = path.split(" ").map((word) => `__fish_seen_subcommand_from ${word}`);
  const deeper = node.children.map((child) => child.name).join(" ");
  return [...seen, ...(deeper === "" ? [] : [`not __fish_seen_subcommand_from ${deeper}`])].join("; and ");
}
