BOT_NAME = "bookshop"
SPIDER_MODULES = ["bookshop.spiders"]
NEWSPIDER_MODULE = "bookshop.spiders"

ADDONS = {"scrapy_threadpool.Addon": 500}

ITEM_PIPELINES = {"bookshop.pipelines.BookPipeline": 300}
FEED_EXPORT_ENCODING = "utf-8"
ROBOTSTXT_OBEY = True
