/** Builds a page with its API: with the models that the environment names, or as a session that is played. */
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTeam } from 'dramatis'
import { hasModel } from '../lib/has-model.ts'
import { play } from '../lib/play.ts'
import { queryFrom } from '../lib/query.ts'
import { playedModel } from './session.ts'
import { webTeam } from './team.ts'

const root = await mkdtemp(join(tmpdir(), 'web-team-'))
const model = hasModel() ? undefined : playedModel()
if (model)
  console.error('No OPENAI_API_KEY: what the models say is a script. Files, commands and their results are real.\n')

const query = queryFrom('Add a user profile page with API endpoint', model !== undefined)
const team = createTeam(webTeam({ root, ...(model && { models: { default: model } }) }))
try {
  const { finalOutput } = await play(team, query)
  console.log(`\n${finalOutput}\n`)
  const entries = await readdir(root, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => join(parentPath, name))
  for (const file of files.sort()) console.log(file.slice(root.length + 1))
  model?.assertDone()
  if (!model) console.error(`\nWhat was made is in ${root}.`)
} finally {
  await team.close()
  if (model) await rm(root, { recursive: true })
}
