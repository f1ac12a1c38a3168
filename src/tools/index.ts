/** The built-in tools, `dramatis/tools`. Each file has one tool, or the tools of one service. */
export { type ReadWebpageOptions, readWebpage } from './read-webpage.ts'
