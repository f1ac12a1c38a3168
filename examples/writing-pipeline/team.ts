/** A researcher, a writer and an editor, one after the other. After section 5.1 of the second source document. */
import type { MultiAgentPatternOptions } from 'dramatis'
import { workspace } from 'dramatis/tools'
import { searchTool } from '../lib/search-tool.ts'

export interface PipelineOptions {
  /** The folder that the writer and the editor work in. */
  root: string
  /** A SearXNG instance with JSON among its formats; without it Brave, with the key of SEARCH_KEY. */
  searchUrl?: string | undefined
  models?: MultiAgentPatternOptions['models']
}

export function writingPipeline({ root, searchUrl, models }: PipelineOptions) {
  const files = workspace({ root, allow: [] })
  const tool = (name: string) => files.filter((each) => each.name === name)
  return {
    agents: [
      {
        name: 'researcher',
        description: 'Gathers information from sources',
        systemPrompt: 'You are a research specialist. Find relevant information, and name your sources.',
        tools: [searchTool(searchUrl)],
        capabilities: ['research', 'fact_finding'],
      },
      {
        name: 'writer',
        description: 'Creates content from research',
        systemPrompt: 'You are a technical writer. Create clear documentation, and write it to guide.md.',
        tools: tool('write_file'),
        capabilities: ['writing', 'documentation'],
      },
      {
        name: 'editor',
        description: 'Reviews and improves content',
        systemPrompt: 'You are an editor. Improve clarity and correctness of guide.md; answer with what you changed.',
        tools: [...tool('read_file'), ...tool('write_file')],
        capabilities: ['editing', 'review'],
      },
    ],
    orchestration: {
      strategy: 'sequential',
      agentOrder: ['researcher', 'writer', 'editor'],
      passFullContext: true,
    },
    ...(models && { models }),
  } satisfies MultiAgentPatternOptions
}
