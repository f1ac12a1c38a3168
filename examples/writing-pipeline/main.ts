/** Writes a guide: with the models that the environment names and a real search, or as a session that is played. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTeam } from 'dramatis'
import { hasModel } from '../lib/has-model.ts'
import { queryFrom } from '../lib/query.ts'
import { recordedSearch } from '../lib/recorded-search.ts'
import { PAGES, playedModel } from './session.ts'
import { writingPipeline } from './team.ts'

const root = await mkdtemp(join(tmpdir(), 'writing-pipeline-'))
const model = hasModel() ? undefined : playedModel()
const search = model && (await recordedSearch(PAGES))
if (model) console.error('No OPENAI_API_KEY: what the models say is a script. The search and the files are real.\n')

const query = queryFrom('Create a guide explaining how to use Docker Compose', model !== undefined)
const searchUrl = search?.origin ?? process.env.SEARXNG_URL
const team = createTeam(writingPipeline({ root, searchUrl, ...(model && { models: { default: model } }) }))
team.events.subscribe((event) => {
  if (event.type === 'tool.finished') console.error(`  ${event.agent}: ${event.tool}`)
})
try {
  const { agentOutputs, finalOutput, error } = await team.execute(query)
  if (error) throw error
  for (const [agent, outputs] of Object.entries(agentOutputs)) console.error(`${agent}: ${outputs.at(-1)?.content}`)
  console.log(await readFile(join(root, 'guide.md'), 'utf8').catch(() => finalOutput))
  model?.assertDone()
} finally {
  await team.close()
  await search?.close()
  await rm(root, { recursive: true })
}
