/** An advocate and a critic argue before a judge, with evidence that they look up. After section 5.3 of the second source document. */
import type { MultiAgentPatternOptions } from 'dramatis'
import { searchTool } from '../lib/search-tool.ts'

export interface DebateOptions {
  /** A SearXNG instance with JSON among its formats; without it Brave, with the key of SEARCH_KEY. */
  searchUrl?: string | undefined
  models?: MultiAgentPatternOptions['models']
}

export function apiDebate({ searchUrl, models }: DebateOptions) {
  const tools = [searchTool(searchUrl)]
  const style =
    'Two or three sentences a turn. Look up with web_search what you cite, and name the address of each source.'
  return {
    agents: [
      { name: 'advocate', systemPrompt: `Argue in favor of the proposition. ${style}`, tools },
      { name: 'critic', systemPrompt: `Argue against the proposition. ${style}`, tools },
      { name: 'judge', systemPrompt: 'Evaluate arguments and decide.' },
    ],
    orchestration: {
      strategy: 'debate',
      debaters: ['advocate', 'critic'],
      judge: 'judge',
      maxRounds: 3,
      requireEvidence: true,
    },
    ...(models && { models }),
  } satisfies MultiAgentPatternOptions
}
