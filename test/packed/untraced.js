/** Somebody who has not installed OpenTelemetry: only what is made for it needs it. */
import { defineAgent } from 'dramatis'
import { testTeam } from 'dramatis/testing'

const error = await import('dramatis/opentelemetry').catch((thrown) => thrown)
console.log(`Error: ${error.code} ${/'(@opentelemetry.*?)'/.exec(error.message)?.[1]}`)

const modules = { ann: defineAgent({ receive: () => 'answers without it' }) }
const team = testTeam({ agents: [{ name: 'ann' }], orchestration: { strategy: 'sequential' } }, { modules })
console.log((await team.execute('go')).finalOutput)
await team.close()
