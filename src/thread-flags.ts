/** Flags of this process that its threads must be given: a worker with `execArgv` of its own inherits none. */

/** Flags of Node's permission model. Those with a value take it after `=` or as the next argument. */
const SWITCHES = new Set([
  '--permission',
  '--experimental-permission',
  '--allow-addons',
  '--allow-child-process',
  '--allow-inspector',
  '--allow-net',
  '--allow-wasi',
  '--allow-worker',
])
const VALUED = new Set(['--allow-fs-read', '--allow-fs-write'])

/**
 * The flags by which this process may do less than others, from its command line and from `NODE_OPTIONS`: in the
 * `execArgv` of a worker they hold for it too. Source: nodejs.org/api/permissions.html.
 */
export function permissionFlags(
  args: readonly string[] = process.execArgv,
  nodeOptions: string = process.env.NODE_OPTIONS ?? '',
): string[] {
  return [...flagsIn(wordsOf(nodeOptions)), ...flagsIn(args)]
}

function flagsIn(args: readonly string[]): string[] {
  return args.flatMap((arg, at) => {
    const [name = '', value] = arg.split('=', 2)
    if (SWITCHES.has(name)) return [arg]
    if (!VALUED.has(name)) return []
    return value === undefined ? [`${name}=${args[at + 1] ?? ''}`] : [arg]
  })
}

/**
 * As Node reads the variable: words stand between spaces, a quoted one may have some, and a backslash is for quoted
 * ones alone.
 */
function wordsOf(text: string): string[] {
  return Array.from(text.matchAll(/(?:"(?:\\.|[^"\\])*"|[^\s"])+/g), ([word]) =>
    word.replaceAll(/"((?:\\.|[^"\\])*)"/g, (_, quoted: string) => quoted.replaceAll(/\\(.)/g, '$1')),
  )
}
