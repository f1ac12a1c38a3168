/** One night: begins a run, or goes on with the one of today that a process before it has left. */
import { writeFileSync } from 'node:fs'
import { createTeam } from 'dramatis'
import options from './team.js'

const { DOCUMENTS = 'documents', REPORT = 'report.md', LOG = 'log' } = process.env
const team = createTeam({ ...options, stateManagement: { path: LOG } })
await team.start()

const run = team.launch(DOCUMENTS, { runId: `night of ${new Date().toISOString().slice(0, 10)}` })
const result = await run.result
if (result.success) writeFileSync(REPORT, result.finalOutput)
console.log(
  result.success ? `${REPORT} is written, for ${result.totalTokenUsage.totalTokens} tokens` : result.error.message,
)
await team.close()
process.exitCode = result.success ? 0 : 1
