/** Logs of a shop, and the command that plays their runs with the code of today. */
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { createTeam } from '../../src/index.ts'
import { main } from '../../src/service/commands/program.ts'
import { type RunMismatch, scriptedModel } from '../../src/testing.ts'
import { folderOf } from '../durability/log-folders.ts'
import type { Changed } from '../fixtures/old-runs/clerk.ts'
import shopTeam from '../fixtures/old-runs/shop-team.ts'
import { silent } from '../kit/team.ts'
import { fakeSurroundings } from '../service/fake-team.ts'
import { served } from './clerk-team.ts'

const file = fileURLToPath(new URL('../fixtures/old-runs/shop-team.js', import.meta.url))

export interface Report {
  runs: number
  same: number
  different: number
  results: { runId: string; mismatches: RunMismatch[]; before: { status: string }; now: { success: boolean } }[]
}

const played = new Map<string, Promise<string>>()

/** Gives the folder of a log of runs by their ids, each with the answer of the person: played once, and copied. */
export async function logged(test: Test, answers: Readonly<Record<string, string>>): Promise<string> {
  const which = JSON.stringify(answers)
  if (!played.has(which)) played.set(which, play(answers))
  const path = join(folderOf(test), 'log')
  cpSync(await played.get(which)!, path, { recursive: true })
  return path
}

async function play(answers: Readonly<Record<string, string>>): Promise<string> {
  const path = join(folderOf(t), 'log')
  process.env.CLERK_EFFECTS = join(folderOf(t), 'effects')
  const model = scriptedModel(Object.keys(answers).map(() => ({ reply: 'green tea' })))
  const stateManagement = { path }
  const team = createTeam({ ...shopTeam, models: { default: model }, logger: silent, stateManagement })
  for (const [runId, answer] of Object.entries(answers))
    await served(team.launch(`tea for ${runId}`, { runId }), answer)
  await team.close()
  return path
}

/** Runs the command with code that has changed so. */
export async function rehearsed(args: readonly string[], changed: Changed = {}) {
  const { surroundings, stdout, stderr } = fakeSurroundings()
  process.env.CLERK_CHANGED = JSON.stringify(changed)
  const code = await main(['rehearse', file, ...args], surroundings)
  return { code, stdout: stdout(), stderr: stderr() }
}
