// SPDX-License-Identifier: Apache-2.0
// How coding command lines are started so that they work without a person and talk to the gateway: what a user of them would type.

/**
 * By name, read by `sh`: $0 is the program, $1 the prompt; OPENAI_BASE_URL, OPENAI_API_KEY and WHETSTONE_MODEL say whom it talks to.
 * What would ask a person, search the web on the vendor's machines, or look for a newer version is turned off.
 */
export const CODING_CLIS = {
  codex: `exec "$0" exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox -m "$WHETSTONE_MODEL" -c web_search=disabled \\
  -c model_provider=whetstone -c 'model_providers.whetstone.name="whetstone"' -c 'model_providers.whetstone.env_key="OPENAI_API_KEY"' \\
  -c 'model_providers.whetstone.wire_api="responses"' -c "model_providers.whetstone.base_url=\\"$OPENAI_BASE_URL\\"" "$1"`,

  "claude-code": `export ANTHROPIC_BASE_URL="\${OPENAI_BASE_URL%/v1}" ANTHROPIC_API_KEY="$OPENAI_API_KEY" ANTHROPIC_MODEL="$WHETSTONE_MODEL"
export IS_SANDBOX=1 DISABLE_AUTOUPDATER=1 CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1
exec "$0" -p "$1" --dangerously-skip-permissions`,

  "qwen-code": `export OPENAI_MODEL="$WHETSTONE_MODEL"
exec "$0" --auth-type openai -y -p "$1"`,

  opencode: `export OPENCODE_DISABLE_AUTOUPDATE=1 OPENCODE_DISABLE_MODELS_FETCH=1 OPENCODE_CONFIG_CONTENT='{"model":"whetstone/'"$WHETSTONE_MODEL"'",
"provider":{"whetstone":{"npm":"@ai-sdk/openai-compatible","models":{"'"$WHETSTONE_MODEL"'":{}},
"options":{"baseURL":"{env:OPENAI_BASE_URL}","apiKey":"{env:OPENAI_API_KEY}"}}}}'
exec "$0" run "$1"`,

  // It says much on its way; what it submitted is in its record.
  "mini-swe-agent": `export OPENAI_API_BASE="$OPENAI_BASE_URL" MSWEA_CONFIGURED=true MSWEA_COST_TRACKING=ignore_errors LITELLM_LOCAL_MODEL_COST_MAP=True
record="\${TMPDIR:-/tmp}/mini-swe-agent.json"
"$0" -m "openai/$WHETSTONE_MODEL" -t "$1" -y --exit-immediately -l 0 -o "$record" >&2 || exit
exec "\${0%/*}/python" -c 'import json, sys; print(json.load(open(sys.argv[1]))["info"]["submission"])' "$record"`,
} as const;

export type CodingCli = keyof typeof CODING_CLIS;

export const CODING_CLI_NAMES = Object.keys(CODING_CLIS) as CodingCli[];
