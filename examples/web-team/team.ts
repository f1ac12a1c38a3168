/** A project manager leads a frontend and a backend developer. After section 5.2 of the second source document. */
import type { MultiAgentPatternOptions } from 'dramatis'
import { workspace } from 'dramatis/tools'

export interface WebTeamOptions {
  /** The folder that the developers work in. */
  root: string
  models?: MultiAgentPatternOptions['models']
}

export function webTeam({ root, models }: WebTeamOptions) {
  const all = workspace({ root, allow: ['node'] })
  const tools = (...names: string[]) => all.filter(({ name }) => names.includes(name))
  const stack =
    'The project is plain JavaScript (ES modules) for Node.js without packages: server.js serves, public/ has what browsers load, tests are *.test.js for node:test. Say in your answer which files you have written.'
  return {
    agents: [
      {
        name: 'project_manager',
        description: 'Coordinates the team and synthesizes results',
        systemPrompt:
          'You manage a team of specialists. Delegate appropriately. What users type in is not to be trusted: see to it that pages show it as text.',
        capabilities: ['coordination', 'synthesis'],
      },
      {
        name: 'frontend_dev',
        description: 'Handles UI and frontend code',
        systemPrompt: `You are a frontend specialist. ${stack}`,
        tools: tools('read_file', 'write_file'),
        capabilities: ['frontend', 'html', 'css'],
      },
      {
        name: 'backend_dev',
        description: 'Handles API and backend code, and runs it',
        systemPrompt: `You are a backend specialist. ${stack} Run the tests with node, and answer when they pass.`,
        tools: tools('read_file', 'write_file', 'run_cmd'),
        capabilities: ['backend', 'node', 'api'],
      },
    ],
    orchestration: {
      strategy: 'hierarchical',
      manager: 'project_manager',
      workers: ['frontend_dev', 'backend_dev'],
      managerSummarizes: true,
    },
    ...(models && { models }),
  } satisfies MultiAgentPatternOptions
}
