/**
 * A path as a model wrote it, taken apart into the names that lead down from the workspace's root. What could lead
 * elsewhere is refused by its form, the same on every platform; what a name turns out to be is the folder's matter.
 */
import { Buffer } from 'node:buffer'
import { ToolInputError } from '../../errors.ts'

const MOST_NAMES = 40
const LONGEST_NAME = 255 // bytes, of most file systems

interface Rule {
  readonly breaks: RegExp
  readonly why: string
}

const ofPaths = (): Rule[] => [
  { breaks: /[\p{Cc}\p{Cs}]/u, why: 'it has a control character' },
  { breaks: /\\/, why: 'it has a backslash; folders are separated by "/"' },
  { breaks: /^~(?:\/|$)/, why: 'the home folder is not in the workspace' },
  { breaks: /^[a-z]:/i, why: 'it begins with a drive' },
  { breaks: /^[a-z][a-z\d+.-]*:\/\//i, why: 'it is a URL' },
  { breaks: /^\//, why: 'it is absolute, and not below the workspace' },
  { breaks: /(?:^|\/)\.\.(?:\/|$)/, why: 'it has ".."' },
]
// Windows drops a dot or a space at the end, so that "... " can be another name than it looks
const ofNames: Rule[] = [{ breaks: /[. ]$/, why: 'one of its names ends in a dot or a space' }]
const ofWindows: Rule[] = [
  { breaks: /[:<>"|?*]/, why: 'one of its names has a character that Windows does not allow' },
  {
    breaks: /^(?:con|prn|aux|nul|conin\$|conout\$|com[\d¹²³]|lpt[\d¹²³])(?:\.|$)/i,
    why: 'one of its names is a device of Windows',
  },
]

/**
 * The names on the way from `root` (a real path) to what `path` means; none for the root itself.
 *
 * @throws ToolInputError when the path could mean anything that is not below the root.
 */
export function pathNames(path: string, root: string, platform: string = process.platform): string[] {
  const below = path === root || path.startsWith(`${root}/`) ? path.slice(root.length + 1) : path
  refuse(path, brokenBy(below, ofPaths()))
  const names = below.split('/').filter((name) => name !== '' && name !== '.')
  const rules = platform === 'win32' ? [...ofNames, ...ofWindows] : ofNames
  for (const name of names) {
    refuse(path, brokenBy(name, rules))
    if (Buffer.byteLength(name) > LONGEST_NAME) refuse(path, `one of its names is longer than ${LONGEST_NAME} bytes`)
  }
  if (names.length > MOST_NAMES) refuse(path, `it is more than ${MOST_NAMES} folders deep`)
  return names
}

function brokenBy(text: string, rules: Rule[]): string | undefined {
  return rules.find(({ breaks }) => breaks.test(text))?.why
}

function refuse(path: string, why: string | undefined): void {
  if (why === undefined) return
  const shown = JSON.stringify(path.length > 100 ? `${path.slice(0, 100)}...` : path)
  const message = `The path ${shown} is refused: ${why}. Give a path below the workspace, such as "src/main.py".`
  throw new ToolInputError(message, { path, why })
}
