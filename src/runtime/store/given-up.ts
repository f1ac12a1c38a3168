/**
 * Notes how much of the beginning of a log was given up, so that first segments that are missing are noticed. The note
 * is the name of an empty file: it takes no room on a disk that is full, and is replaced in one moment.
 */
import { join } from 'node:path'
import type { LogFiles } from './log-files.ts'
import type { Position } from './log-store.ts'

const NAME = /^[0-9a-f]{16}\.begin$/

/** Name of the note. */
export function noteName(position: Position): string {
  return `${position.toString(16).padStart(16, '0')}.begin`
}

const positionIn = (name: string): Position => Number.parseInt(name.slice(0, 16), 16)

async function notes(folder: string, files: LogFiles): Promise<string[]> {
  return (await files.list(folder)).filter((name) => NAME.test(name)).sort()
}

/** Position up to which all may be gone; 0 if nothing was ever given up. */
export async function givenUpTo(folder: string, files: LogFiles): Promise<Position> {
  const last = (await notes(folder, files)).at(-1)
  return last === undefined ? 0 : positionIn(last)
}

/** To be called before anything is removed. The note survives the death of the machine when this resolves. */
export async function noteGivenUp(folder: string, files: LogFiles, position: Position): Promise<void> {
  const path = join(folder, noteName(position))
  const old = (await notes(folder, files)).at(-1)
  if (old === undefined) await files.create(path).then((file) => file.close())
  else if (positionIn(old) < position) await files.rename(join(folder, old), path)
  await files.syncFolder(folder)
}
