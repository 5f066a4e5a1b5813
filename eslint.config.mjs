import { importX } from "eslint-plugin-import-x";
import tseslint from "typescript-eslint";

export default tseslint.config(
  {
    ignores: [
      "**/node_modules/**",
      "proto/gen/**",
      ".venv/**",
      ".whetstone/**",
      "**/dist/**",
      "coverage/**",
      "python-trainer/**",
    ],
  },
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.recommendedTypeChecked],
    plugins: { "import-x": importX },
    languageOptions: { parserOptions: { project: "./tsconfig.json", tsconfigRootDir: import.meta.dirname } },
    settings: {
      "import-x/resolver": { node: { extensions: [".ts", ".js"] } },
      "import-x/extensions": [".ts"],
      "import-x/parsers": { "@typescript-eslint/parser": [".ts"] },
    },
    rules: {
      // node:test awaits its own tests.
      "@typescript-eslint/no-floating-promises": [
        "error",
        { allowForKnownSafeCalls: [{ from: "package", package: "node:test", name: ["test"] }] },
      ],
      "@typescript-eslint/no-misused-promises": "error",
      "@typescript-eslint/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
      "@typescript-eslint/consistent-type-imports": "error",
      "@typescript-eslint/no-unused-vars": ["error", { argsIgnorePattern: "^_", varsIgnorePattern: "^_" }],
      "import-x/no-cycle": "error",
      eqeqeq: "error",
      "no-console": ["error", { allow: ["log"] }],
      "max-lines": ["error", 400],
      complexity: ["error", 12],
      "max-params": ["error", 4],
      "max-depth": ["error", 3],
      // Numbers in messages are plain text here: `${count} tasks`. Objects are still refused.
      "@typescript-eslint/restrict-template-expressions": [
        "error",
        { allowNumber: true, allowBoolean: true, allowNullish: true },
      ],
      // An async function without await keeps a handler's or an interface's shape, and turns its throws into rejections.
      "@typescript-eslint/require-await": "off",
    },
  },
  {
    // As long as the contract is that they are made from.
    files: ["**/generated/**/*.ts"],
    rules: { "max-lines": "off" },
  },
  {
    files: ["**/*.test.ts", "tests/**/*.ts", "**/bench/**/*.ts"],
    rules: {
      // A test reads top to bottom; splitting it for the line count hides its story.
      "max-lines": ["error", 600],
      // Responses of the system under test are parsed JSON; expect() is what checks them.
      "@typescript-eslint/no-unsafe-assignment": "off",
      "@typescript-eslint/no-unsafe-member-access": "off",
      "@typescript-eslint/no-unsafe-argument": "off",
      "@typescript-eslint/no-unsafe-return": "off",
    },
  },
);
