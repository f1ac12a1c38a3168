/** The built-in tools, `dramatis/tools`. Each file has one tool, or the tools of one service. */
export { type ExchangeRate, exchangeRate } from './exchange-rate.ts'
export { type ReadWebpageOptions, readWebpage } from './read-webpage.ts'
export { stockPrice } from './stock-price.ts'
export type { StockPrice } from './stock-services.ts'
export { weather } from './weather.ts'
export type { DayWeather, WeatherReport } from './weather-report.ts'
export { type SearchResult, type WebSearchOptions, webSearch } from './web-search.ts'
export { readFile, runCommand, type WorkspaceOptions, workspace, writeFile } from './workspace.ts'
